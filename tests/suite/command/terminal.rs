//! What only a terminal gets: colours, questions, progress. `script` (util-linux) makes one.

use std::process::Stdio;

use harness::{Stack, places::program};
use tokio::{io::AsyncWriteExt, process::Command};

use super::{ask, history, payloads};

/// Runs the command on a terminal, on which `typed` is typed.
async fn on_a_terminal(
    stack: &Stack,
    arguments: &str,
    typed: &str,
    variables: &[(&str, &str)],
) -> (Option<i32>, String) {
    let line = format!("{} {arguments}", program("outbox-relay", "OUTBOX_RELAY_PROGRAM").display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env_clear().kill_on_drop(true);
    script.env("PATH", std::env::var_os("PATH").unwrap()).env("TERM", "xterm");
    script.env("DATABASE_URL", stack.db.url()).env("AMQP_URL", stack.vhost.url());
    script.env("OUTBOX_RELAY_SLOT", stack.db.name()).envs(variables.iter().copied());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keyboard = script.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).await.unwrap();
    let output = script.wait_with_output().await.unwrap();
    drop(keyboard); // an end of input would end the terminal
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn colours_are_for_terminals_only_and_not_for_those_who_do_not_want_them() {
    let stack = Stack::new().await;
    history(&stack).await;
    let (code, shown) = on_a_terminal(&stack, "events --status FAILED", "", &[]).await;
    assert!(code == Some(0) && shown.contains("\u{1b}[31mFAILED\u{1b}[0m"), "{shown:?}");
    for (arguments, variables) in
        [("events --status FAILED", &[("NO_COLOR", "1")][..]), ("events --status FAILED --json", &[])]
    {
        let (_, shown) = on_a_terminal(&stack, arguments, "", variables).await;
        assert!(shown.contains("FAILED") && !shown.contains('\u{1b}'), "{shown:?}");
    }
    let asked = ask(&stack, &["events", "--status", "FAILED"]).await;
    assert!(!asked.out.contains('\u{1b}'), "{asked:?}");
}

#[tokio::test]
async fn a_person_is_asked_after_a_look_at_what_it_would_be() {
    let stack = Stack::new().await;
    history(&stack).await;
    for no in ["n\n", "\n", "yesterday\n"] {
        let (code, shown) = on_a_terminal(&stack, "replay --error-like %NO_ROUTE%", no, &[]).await;
        assert!(code == Some(1) && shown.contains("Replay 2 events? [y/N]"), "{shown:?}");
        assert!(shown.contains("312 NO_ROUTE") && shown.contains("topic.1"), "{shown:?}");
        assert_eq!(payloads(&stack, "PENDING").await, "");
    }
    let (code, shown) = on_a_terminal(&stack, "replay --error-like %NO_ROUTE%", "y\n", &[]).await;
    assert!(code == Some(0) && shown.contains("Replayed 2 events"), "{shown:?}");
    assert_eq!(payloads(&stack, "PENDING").await, "4 8");
}

#[tokio::test]
async fn long_work_shows_on_a_terminal_how_far_it_is() {
    let stack = Stack::new().await;
    let insert = "INSERT INTO outbox.events (topic, payload) SELECT 'a', to_jsonb(repeat('x', 300)) FROM generate_series(1, 20000)";
    stack.db.batch_execute(insert).await.unwrap();
    let (code, shown) = on_a_terminal(&stack, "purge --older-than 1s --dry-run", "", &[]).await;
    assert!(code == Some(0) && shown.contains("counting [") && shown.contains("100 %"), "{shown:?}");
    let asked = ask(&stack, &["purge", "--older-than", "1s", "--dry-run"]).await.ended_with(0);
    assert!(!asked.err.contains('['), "{asked:?}");
}
