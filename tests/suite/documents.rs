//! What the documents say is so: their SQL runs, their excerpts stand in the files they name, their links lead
//! somewhere.

mod capacity;
mod commands;
mod ddl;
mod figures;
mod languages;
mod prose;
mod sinks;

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
    // Which the documents say by a command line.
    writeln!(input, "\\i {}", checkout().join("sql/inbox.sql").display()).unwrap();
    // All but docs/migrate.md, whose moves have tests of their own, and docs/guides/personal-data.md, which takes
    // pgcrypto. The order is that in which one makes what the next needs.
    let first = [
        "docs/install.md",
        "README.md",
        "docs/sql.md",
        "docs/sql-operations.md",
        "docs/emitting.md",
        "docs/consuming.md",
        "docs/guides/idempotent-consumers.md",
        "docs/guides/designing-events.md",
        "docs/guides/testing.md",
        "docs/guides/many-databases.md",
        "docs/guides/topology-and-deploys.md",
        "docs/guides/after-an-outage.md",
        "docs/guides/migrations.md",
        "docs/for-dbas.md",
        "docs/dashboard.md",
        "docs/alerts.md",
        "docs/run/watch.md",
        "docs/rights.md",
        "docs/run/slot.md",
        "docs/run/retention.md",
        "docs/run/table.md",
        "docs/run/upgrade.md",
        "docs/run/backup.md",
        "docs/guides/upgrades-of-postgresql.md",
    ];
    let alerts = documents().into_iter().filter(|path| path.starts_with(checkout().join("docs/alerts")));
    let last = checkout().join("docs/run/uninstall.md");
    for document in first.iter().map(|path| checkout().join(path)).chain(alerts).chain([last]) {
        for block in blocks(&document).iter().filter(|block| block.language == "sql") {
            writeln!(input, "\\echo {}:{}\n{}", document.display(), block.line, block.text).unwrap();
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
    let reference = read("docs/sql.md");
    let rows = reference.lines().skip_while(|line| !line.starts_with("| refused")).skip(2);
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

#[tokio::test]
async fn the_reference_has_every_column_and_what_people_may_call() {
    let db = Postgres::shared().await.database().await;
    db.batch_execute("CREATE ROLE documents_reader; SELECT outbox.grant_emit('documents_reader')").await.unwrap();
    db.batch_execute("SELECT outbox.grant_operate('documents_reader')").await.unwrap();
    let names = "
        SELECT attname::text FROM pg_attribute
        WHERE attrelid IN ('outbox.events'::regclass, 'outbox.backlog'::regclass, 'outbox.failed'::regclass)
          AND attnum > 0 AND NOT attisdropped
        UNION SELECT relname::text FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind IN ('r', 'v')
        UNION SELECT p.proname::text FROM pg_proc AS p, aclexplode(p.proacl) AS permit
        WHERE p.pronamespace = 'outbox'::regnamespace AND permit.grantee = 'documents_reader'::regrole
        UNION SELECT unnest(p.proargnames) FROM pg_proc AS p
        WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname IN ('emit', 'replay_many')
        UNION SELECT proname::text FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname LIKE 'grant%'";
    let names: Vec<String> = db.query(names, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    db.batch_execute("DROP OWNED BY documents_reader; DROP ROLE documents_reader").await.unwrap();
    assert!(names.len() > 30, "{names:?}");
    let pages = ["docs/sql.md", "docs/sql-operations.md", "docs/rights.md"];
    let reference: String = pages.iter().map(read).collect();
    let told =
        |name: &&String| [format!("`{name}`"), format!("outbox.{name}")].iter().any(|told| reference.contains(told));
    let missing: Vec<_> = names.iter().filter(|name| !told(name)).collect();
    assert!(missing.is_empty(), "{pages:?} do not say what these are: {missing:?}");
}

#[test]
fn every_failure_names_tests_that_are_there() {
    let suite = std::env::current_exe().unwrap();
    let listed = std::process::Command::new(suite).args(["--list", "--format", "terse"]).output().unwrap();
    let tests = String::from_utf8(listed.stdout).unwrap();
    let page = read("docs/failures.md");
    let mut count = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what fails")) {
        let named = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let filters: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!filters.is_empty(), "no test: {row}");
        if !named.starts_with("unit test") {
            for filter in filters {
                assert!(tests.lines().any(|test| test.contains(filter)), "no test has {filter} in its name: {row}");
            }
        }
        count += 1;
    }
    assert!(count >= 50, "{count} failures");
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

#[test]
fn every_link_into_a_document_leads_to_a_heading() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for (path, anchor) in
            targets.filter_map(|target| target.split_once('#')).filter(|(path, _)| !path.contains(':'))
        {
            let other = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            let headings: Vec<String> =
                read(&other).lines().filter(|line| line.starts_with('#')).map(anchor_of).collect();
            assert!(headings.iter().any(|heading| heading == anchor), "{}: {path}#{anchor}", document.display());
            count += 1;
        }
    }
    assert!(count >= 10, "{count} links");
}

#[test]
fn every_file_that_names_the_version_names_this_one() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, name) in [
        ("packaging/META.json", format!("\"version\": \"{version}\"")),
        ("packaging/helm/Chart.yaml", format!("\nversion: {version}\nappVersion: \"{version}\"\n")),
        ("packaging/kubernetes/cloudnative-pg.yaml", format!("outbox-extension:{version}-18")),
        ("docs/install.md", format!("`outbox-{version}.sql`")),
        ("docs/run/upgrade.md", format!("`outbox-upgrade-{version}.sql`")),
        ("docs/guides/migrations.md", format!("`inbox-{version}.sql`")),
        ("docs/guides/testing.md", format!("db/outbox-{version}.sql")),
        ("sql/plain/begin_upgrade.sql", format!("outbox.version() = '{version}'")),
        ("sql/inbox.sql", format!("outbox {version}")),
    ] {
        assert!(read(file).contains(&name), "{file} does not have {name}");
    }
}

/// What GitHub calls a heading in links: lower case, punctuation left out, hyphens for spaces.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
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

/// The SQL of a section, block by block, up to the next heading of the same rank.
pub(crate) fn sql_under(document: &str, heading: &str) -> Vec<String> {
    let text = read(document);
    let rank = format!("{} ", heading.split(' ').next().unwrap());
    let first = text.lines().position(|line| line == heading).unwrap_or_else(|| panic!("{document}: no {heading}"));
    let rest = text.lines().skip(first + 1).position(|line| line.starts_with(&rank));
    let end = rest.map_or(usize::MAX, |rest| first + 1 + rest);
    let blocks = blocks(document).into_iter().filter(|block| block.language == "sql");
    blocks.filter(|block| (first..end).contains(&block.line)).map(|block| block.text).collect()
}

/// The documents at the root, and those of docs/ and its folders.
fn documents() -> Vec<PathBuf> {
    let inside = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> = inside(checkout()).collect();
    let mut folders = vec![checkout().join("docs")];
    while let Some(folder) = folders.pop() {
        let (below, files) = inside(&folder).partition::<Vec<_>, _>(|path| path.is_dir());
        folders.extend(below);
        documents.extend(files);
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.sort();
    documents
}

fn read(path: impl AsRef<Path>) -> String {
    let path = checkout().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
