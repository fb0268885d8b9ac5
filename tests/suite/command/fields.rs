//! What programs rely on.

use std::collections::BTreeSet;

use harness::{Stack, places::checkout};

use super::{ask, history, value};

#[tokio::test]
async fn every_field_of_an_answer_is_in_the_reference() {
    let stack = Stack::new().await;
    history(&stack).await;
    stack.db.batch_execute("SELECT outbox.emit('t', '\\x00'::bytea, aggregate_id => '1')").await.unwrap();
    let id = value(&stack.db, "SELECT id FROM outbox.events WHERE payload_bytes IS NOT NULL").await;
    let mut fields = BTreeSet::new();
    for arguments in [
        &["init"][..],
        &["config"],
        &["version"],
        &["status"],
        &["check"],
        &["events", "--payload"],
        &["events", &id, "--payload"],
        &["replay", "--all", "--dry-run"],
        &["release", "--all", "--dry-run"],
        &["purge", "--older-than", "1d", "--dry-run"],
    ] {
        let asked = ask(&stack, &[arguments, &["--json"]].concat()).await;
        let answers = asked.json();
        assert!(!answers.is_empty(), "{asked:?}");
        fields
            .extend(answers.iter().flat_map(|answer| answer.as_object().unwrap().keys().cloned().collect::<Vec<_>>()));
    }
    let reference = std::fs::read_to_string(checkout().join("docs/json-output.md")).unwrap();
    let missing: Vec<&String> = fields.iter().filter(|field| !reference.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty() && fields.len() > 50, "docs/json-output.md does not have {missing:?} of {fields:?}");
}
