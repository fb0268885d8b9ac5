//! `purge`: old finished events go, and nothing else.

use harness::Stack;

use super::{OPERATOR, ask, ask_as, forget, history, payloads, role, value};

/// The ten events of [`history`], those up to 5 finished eight days ago, and one that is pending.
async fn old_history(stack: &Stack) {
    history(stack).await;
    stack
        .db
        .batch_execute(
            "SET session_replication_role = replica;
             UPDATE outbox.events SET processed_at = now() - interval '8 days' WHERE payload::text::int <= 5;
             RESET session_replication_role;
             SELECT outbox.emit('t', '11')",
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn only_events_that_were_finished_long_ago_are_deleted() {
    let stack = Stack::new().await;
    old_history(&stack).await;
    let done = ask(&stack, &["purge", "--older-than", "7d", "--dry-run", "--json"]).await.ended_with(0).object();
    assert_eq!((&done["matched"], &done["deleted"]), (&3.into(), &0.into()), "{done}");
    let asked = ask(&stack, &["purge", "--older-than", "7d"]).await.ended_with(2);
    assert!(asked.err.contains("Delete 3 events?") && asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(payloads(&stack, "SENT").await, "1 3 5 7 9");

    let done = ask(&stack, &["purge", "--older-than", "7d", "--yes", "--json"]).await.ended_with(0).object();
    assert_eq!(done["deleted"], 3);
    assert_eq!(payloads(&stack, "SENT").await, "7 9");
    assert_eq!(payloads(&stack, "FAILED").await, "2 4 6 8 10");
    ask(&stack, &["purge", "--older-than", "7d", "--status", "failed", "--yes"]).await.ended_with(0);
    assert_eq!(payloads(&stack, "FAILED").await, "6 8 10");
    let asked = ask(&stack, &["purge", "--older-than", "7d", "--status", "both"]).await.ended_with(0);
    assert!(asked.err.contains("0 events finished before"), "{asked:?}");
    assert_eq!(payloads(&stack, "PENDING").await, "11");
}

#[tokio::test]
async fn a_failed_event_that_nobody_wants_any_more_is_deleted_by_its_id_and_one_that_is_pending_is_not() {
    let stack = Stack::new().await;
    old_history(&stack).await;
    let failed = value(&stack.db, "SELECT id FROM outbox.events WHERE payload::text = '6'").await;
    let pending = value(&stack.db, "SELECT id FROM outbox.events WHERE payload::text = '11'").await;
    let asked = ask(&stack, &["purge", &failed]).await.ended_with(2);
    assert!(asked.out.contains(&failed) && asked.err.contains("Delete 1 event?"), "{asked:?}");
    let asked = ask(&stack, &["purge", &failed, "--dry-run"]).await.ended_with(0);
    assert!(asked.out.contains(&failed), "{asked:?}");
    let asked = ask(&stack, &["purge", &pending, "--yes"]).await.ended_with(1);
    assert!(asked.err.contains("Of 1 event, 0 are there, finished"), "{asked:?}");
    ask(&stack, &["purge", &failed, "--status", "SENT", "--yes"]).await.ended_with(1);
    let done = ask(&stack, &["purge", &failed, &pending, "--yes", "--json"]).await.ended_with(1).object();
    assert_eq!((&done["matched"], &done["deleted"], &done["before"]), (&1.into(), &1.into(), &().into()), "{done}");
    assert_eq!([payloads(&stack, "FAILED").await, payloads(&stack, "PENDING").await], ["2 4 8 10", "11"]);
    ask(&stack, &["purge", &failed, "--older-than", "1d", "--yes"]).await.ended_with(2);
    ask(&stack, &["purge", "--yes"]).await.ended_with(2);
}

#[tokio::test]
async fn a_table_of_many_pages_is_purged_to_its_end_in_many_transactions() {
    let stack = Stack::new().await;
    stack
        .db
        .batch_execute(
            "INSERT INTO outbox.events (topic, payload) SELECT 'a', to_jsonb(repeat('x', 300)) FROM generate_series(1, 30000);
             SET session_replication_role = replica;
             UPDATE outbox.events SET status = 'SENT', processed_at = now() - interval '8 days' WHERE seq % 3 <> 0;
             RESET session_replication_role",
        )
        .await
        .unwrap();
    let transactions = "SELECT txid_snapshot_xmax(txid_current_snapshot())";
    let before: i64 = value(&stack.db, transactions).await.parse().unwrap();
    let asked = ask(&stack, &["purge", "--older-than", "1w", "--yes"]).await.ended_with(0);
    assert!(asked.err.contains("Deleted 20,000 events"), "{asked:?}");
    assert_eq!(value(&stack.db, "SELECT count(*) FROM outbox.events").await, "10000");
    let after: i64 = value(&stack.db, transactions).await.parse().unwrap();
    assert!(after - before >= 5, "{} transactions", after - before);
}

#[tokio::test]
async fn a_role_that_may_not_delete_is_told_so_before_anything_is_read() {
    let stack = Stack::new().await;
    old_history(&stack).await;
    let role = role(&stack.db, "operator", OPERATOR).await;
    let asked = ask_as(&stack, &role, &["purge", "--older-than", "7d", "--yes"]).await.ended_with(13);
    let grant = format!("SELECT outbox.grant_maintain('{role}')");
    assert!(asked.err.contains(&grant), "{asked:?}");
    let done = ask_as(&stack, &role, &["purge", "--older-than", "7d", "--dry-run", "--json"]).await.ended_with(0);
    assert_eq!(done.object()["matched"], 3);
    stack.db.batch_execute(&grant).await.unwrap();
    ask_as(&stack, &role, &["purge", "--older-than", "7d", "--yes"]).await.ended_with(0);
    assert_eq!(payloads(&stack, "SENT").await, "7 9");
    forget(&stack.db, &role).await;
}
