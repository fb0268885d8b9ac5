//! Sentences are for people: no code looks for words in one.

use std::path::{Path, PathBuf};

use harness::places::checkout;

/// Ways to look for words in a sentence of ours, or in what a broker has said.
const LOOKS: [&str; 6] = [
    "last_error LIKE '",
    "reason LIKE '",
    "reason.contains(\"",
    "words.contains(\"",
    "sentence().contains(\"",
    "error.to_string().contains(\"",
];

pub(super) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| ["rs", "sql", "js"].iter().any(|known| kind == *known)) {
            found.push(path);
        }
    }
}

#[test]
fn nothing_decides_by_the_words_of_a_sentence() {
    let mut found = Vec::new();
    for folder in ["sql", "relay/bin", "relay/console", "relay/core", "relay/service", "outbox_ext/src"] {
        files(&checkout().join(folder), &mut found);
    }
    assert!(found.len() > 200, "{}", found.len());
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for look in LOOKS {
            assert!(!code.contains(look), "{}: {look}", path.display());
        }
    }
}
