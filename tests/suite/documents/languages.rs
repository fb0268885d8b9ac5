//! What docs/languages/ shows of a program stands in a file that a test runs.

use std::path::Path;

use harness::places::checkout;

use super::{Block, blocks, read};

/// What names the file of a block: a comment before it, the block's first line, or a link in the paragraph before.
const FILES: &str = "tests/clients/";

#[test]
fn every_program_in_the_pages_of_languages_is_an_excerpt_of_a_tested_file() {
    let mut count = 0;
    for page in std::fs::read_dir(checkout().join("docs/languages")).unwrap().map(|file| file.unwrap().path()) {
        let text = read(&page);
        for block in blocks(&page).iter().filter(|block| !["", "sh", "sql", "text"].contains(&&*block.language)) {
            let place = format!("{}:{}", page.display(), block.line);
            let (file, excerpt) = named(block, &text).unwrap_or_else(|| panic!("{place} names no file of {FILES}"));
            let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
            assert!(trimmed(&read(&file)).contains(&trimmed(&excerpt)), "{place}: not in {file}:\n{excerpt}");
            count += 1;
        }
    }
    assert!(count >= 10, "{count} blocks");
}

#[test]
fn a_page_of_a_language_has_at_most_120_lines() {
    for page in std::fs::read_dir(checkout().join("docs/languages")).unwrap().map(|file| file.unwrap().path()) {
        let lines = read(&page).lines().count();
        assert!(lines <= 120, "{} has {lines}", page.display());
    }
}

/// The file that the block names, and its text without a first line that does.
fn named(block: &Block, page: &str) -> Option<(String, String)> {
    let is_there = |file: &String| checkout().join(file).is_file();
    if let Some(file) = block.of.clone().filter(is_there) {
        return Some((file, block.text.clone()));
    }
    let (first, rest) = block.text.split_once('\n')?;
    if let Some(file) = file_in(first).filter(is_there) {
        return Some((file, rest.to_owned()));
    }
    let before: Vec<&str> = page.lines().take(block.line - 1).collect();
    let paragraph = before.iter().rev().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    paragraph.filter_map(|line| file_in(line)).find(is_there).map(|file| (file, block.text.clone()))
}

/// The last file below tests/clients that a line names.
fn file_in(line: &str) -> Option<String> {
    let (_, path) = line.rsplit_once(FILES)?;
    let end = path.find(|c: char| c.is_whitespace() || ")`*>".contains(c)).unwrap_or(path.len());
    Some(Path::new(FILES).join(&path[..end]).to_str()?.to_owned())
}

#[test]
fn a_blocks_file_is_the_one_that_is_named_next_to_it() {
    let file = Some("tests/clients/go/main.go".to_owned());
    assert_eq!(file_in("// tests/clients/go/main.go"), file);
    assert_eq!(file_in("[emit](../../tests/clients/go/main.go) emits:"), file);
    assert_eq!(file_in("emits:"), None);
}
