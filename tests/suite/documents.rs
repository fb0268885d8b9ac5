//! What the documents say is so: their SQL runs, their excerpts stand in the files they name, their links lead somewhere.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use harness::{Postgres, places::checkout};

#[tokio::test]
async fn the_sql_of_the_documents_runs_from_the_first_block_to_the_last() {
    let postgres = Postgres::private().start().await; // they change the server's settings and make roles
    let db = postgres.empty_database().await;
    let mut psql = postgres.program("psql");
    psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--echo-errors", db.url()]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut psql = psql.spawn().unwrap();
    let mut input = psql.stdin.take().unwrap();
    for document in ["README.md", "docs/operations.md"] {
        for block in blocks(document).iter().filter(|block| block.language == "sql") {
            writeln!(input, "\\echo {document}:{}\n{}", block.line, block.text).unwrap();
        }
    }
    drop(input);
    let output = psql.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn every_example_of_a_refused_event_is_refused_with_its_sqlstate() {
    let db = Postgres::shared().await.database().await;
    let readme = read("README.md");
    let rows = readme.lines().skip_while(|line| !line.starts_with("| refused")).skip(2);
    let mut count = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        let [_, sqlstate, example] = cells[..] else { panic!("not three cells: {row}") };
        let error = db.query_one(&format!("SELECT outbox.{example}"), &[]).await.expect_err(example);
        assert_eq!(error.code().map(|code| code.code()), Some(sqlstate), "{example}: {error:?}");
        count += 1;
    }
    assert!(count >= 10, "{count} rows");
}

#[test]
fn every_excerpt_stands_in_the_file_it_names() {
    let excerpts: Vec<Block> = documents().iter().flat_map(blocks).filter(|block| block.of.is_some()).collect();
    assert!(excerpts.len() >= 4);
    for excerpt in excerpts {
        let file = excerpt.of.unwrap();
        let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        assert!(trimmed(&read(&file)).contains(&trimmed(&excerpt.text)), "not in {file}:\n{}", excerpt.text);
    }
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    for document in documents() {
        for target in
            read(&document).split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
        {
            let path = target.split('#').next().unwrap();
            if !path.is_empty() && !target.contains("://") {
                let folder = document.parent().unwrap();
                assert!(folder.join(path).exists(), "{}: {target}", document.display());
            }
        }
    }
}

/// A fenced block of a document.
struct Block {
    /// Line number of its opening fence.
    line: usize,
    language: String,
    text: String,
    /// The file named in a comment on the line before.
    of: Option<String>,
}

fn blocks(document: impl AsRef<Path>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut inside, mut before) = (false, None);
    for (number, line) in read(document).lines().enumerate() {
        match (inside, line.trim_start().strip_prefix("```")) {
            (true, Some(_)) => inside = false,
            (true, None) => {
                let text = &mut blocks.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
            (false, Some(language)) => {
                let (language, text) = (language.to_owned(), String::new());
                blocks.push(Block { line: number + 1, language, text, of: before.take() });
                inside = true;
            }
            (false, None) => {
                before = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")).map(str::to_owned);
            }
        }
    }
    blocks
}

fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<PathBuf> = [checkout().to_owned(), checkout().join("docs")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.sort();
    documents
}

fn read(path: impl AsRef<Path>) -> String {
    let path = checkout().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
