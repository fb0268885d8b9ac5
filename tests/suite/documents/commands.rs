//! The command lines of the documents: what they call exists, and takes what it is given.

use std::process::Command;

use harness::places::{checkout, program};

use super::{blocks, documents, read};

/// A command that somebody would type, without its comment and what follows a pipe.
struct Line {
    place: String,
    text: String,
}

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for document in documents() {
        for block in blocks(&document) {
            for (number, line) in block.text.lines().enumerate() {
                let typed = match block.language.as_str() {
                    "sh" => Some(line),
                    "text" => line.strip_prefix("$ "),
                    _ => None,
                };
                if let Some(typed) = typed {
                    let end =
                        [" #", " | ", " > "].iter().filter_map(|end| typed.find(end)).min().unwrap_or(typed.len());
                    let place = format!("{}:{}", document.display(), block.line + number + 1);
                    for command in typed[..end].split("; ").flat_map(|part| part.split(" && ")) {
                        lines.push(Line { place: place.clone(), text: command.trim().to_owned() });
                    }
                }
            }
        }
    }
    lines
}

#[test]
fn every_call_of_the_relay_in_the_documents_is_one_that_it_takes() {
    let relay = program("outbox-relay", "OUTBOX_RELAY");
    let path = format!("{}:{}", relay.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for line in lines().iter().filter(|line| line.text.starts_with("outbox-relay ")) {
        // It reads what comes before --help, and refuses what it does not know.
        let output =
            Command::new("bash").args(["-c", &format!("{} --help", line.text)]).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{}: {}: {}", line.place, line.text, String::from_utf8_lossy(&output.stderr));
        count += 1;
    }
    assert!(count >= 20, "{count} calls");
}

#[test]
fn every_call_of_make_in_the_documents_names_a_target() {
    let makefile = read("Makefile");
    let mut count = 0;
    for line in &lines() {
        let Some(call) = line.text.trim_start_matches("sudo ").strip_prefix("make ") else { continue };
        for target in call.split_whitespace().take_while(|word| !word.contains('=')) {
            assert!(makefile.contains(&format!("\n{target}:")), "{}: make {target}", line.place);
            count += 1;
        }
    }
    assert!(count >= 15, "{count} targets");
}

#[test]
fn every_file_of_the_checkout_in_a_command_of_the_documents_is_there() {
    let mut count = 0;
    for line in &lines() {
        for word in line.text.split_whitespace().map(|word| word.trim_matches(['"', '\''])) {
            if ["sql/", "docker/", "ops/", "packaging/", "scripts/"].iter().any(|folder| word.starts_with(folder)) {
                assert!(checkout().join(word).exists(), "{}: {word}", line.place);
                count += 1;
            }
        }
    }
    assert!(count >= 3, "{count} files");
}

#[test]
fn every_file_of_settings_in_the_documents_is_one_that_the_relay_takes() {
    let mut count = 0;
    for document in documents() {
        for block in blocks(&document).iter().filter(|block| block.language == "toml") {
            let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("documented-{count}.toml"));
            std::fs::write(&file, &block.text).unwrap();
            let mut relay = Command::new(program("outbox-relay", "OUTBOX_RELAY"));
            relay.env_clear().env("DATABASE_URL", "postgres://relay@db/app").env("AMQP_URL", "amqp://relay@mq/%2f");
            let output = relay.arg("config").arg("--config").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}:{}: {said}", document.display(), block.line);
            count += 1;
        }
    }
    assert!(count >= 2, "{count} files");
}
