//! Retention: the relay that works deletes what is old.

use harness::{RelayBuilder, SOON, Stack};

use super::{counts, emit, wait_for_counts, wait_for_status};
use crate::watch::{http_port, wait_for_metric};

/// A relay that deletes what has been SENT for a second.
fn relay(stack: &Stack) -> RelayBuilder {
    stack.relay().set("retention", "1s").set("http-listen", "0")
}

/// A consumer's queue for `t.#`; what goes elsewhere is FAILED.
const BOUND: &str = "t.#";

#[tokio::test]
async fn what_has_been_sent_for_long_enough_is_deleted_and_all_else_is_kept() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let relay = relay(&stack).start().await;
    let port = http_port(&relay).await;
    emit(&stack.db, "'t.scheduled', '{}', available_at => now() + interval '1 hour'", &[]).await;
    let failed = emit(&stack.db, "'unbound', '{}'", &[]).await;
    wait_for_status(&stack.db, failed, "FAILED").await;
    stack.db.batch_execute("SELECT outbox.emit('t.many', '{}') FROM generate_series(1, 5000)").await.unwrap();
    wait_for_counts(&stack.db, (1, 0, 1), SOON).await;
    wait_for_metric(port, "outbox_events_deleted_total", "", 5000.0).await;
    wait_for_metric(port, "outbox_retention_kept_events", "", 0.0).await;
    relay.wait_for_log("deleted old events").await;
}

#[tokio::test]
async fn failed_events_go_after_a_time_of_their_own_and_one_that_holds_its_key_never() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let relay = relay(&stack).set("retention", "off").set("retention-failed", "1s").set("after-failed", "hold");
    let relay = relay.start().await;
    let port = http_port(&relay).await;
    let sent = emit(&stack.db, "'t', '{}'", &[]).await;
    let held = emit(&stack.db, "'unbound', '{}', aggregate_type => 'a', aggregate_id => 'k'", &[]).await;
    let behind = emit(&stack.db, "'t', '{}', aggregate_type => 'a', aggregate_id => 'k'", &[]).await;
    emit(&stack.db, "'unbound', '{}'", &[]).await;
    wait_for_counts(&stack.db, (1, 1, 1), SOON).await;
    wait_for_status(&stack.db, sent, "SENT").await;
    wait_for_status(&stack.db, held, "FAILED").await;
    let line = relay.wait_for_log("old events are kept: later ones wait for them").await;
    assert!(line.contains("events=1"), "{line}");
    wait_for_metric(port, "outbox_retention_kept_events", "", 1.0).await;
    stack.db.execute("SELECT outbox.release($1)", &[&held]).await.unwrap();
    wait_for_status(&stack.db, behind, "SENT").await;
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await;
}

#[tokio::test]
async fn an_event_that_cannot_be_deleted_is_named_with_the_reason_and_keeps_no_other() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let relay = relay(&stack).start().await;
    let port = http_port(&relay).await;
    stack.db.batch_execute("CREATE TABLE invoice (event uuid REFERENCES outbox.events)").await.unwrap();
    stack.db.batch_execute("BEGIN").await.unwrap();
    let kept = emit(&stack.db, "'t', '{}'", &[]).await;
    stack.db.execute("INSERT INTO invoice VALUES ($1)", &[&kept]).await.unwrap();
    stack.db.batch_execute("SELECT outbox.emit('t', '{}') FROM generate_series(1, 10); COMMIT").await.unwrap();
    let line = relay.wait_for_log("old events cannot be deleted").await;
    assert!(line.contains(&kept.to_string()) && line.contains("foreign key constraint"), "{line}");
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
    wait_for_metric(port, "outbox_retention_kept_events", "", 1.0).await;
    stack.db.batch_execute("DROP TABLE invoice").await.unwrap();
    wait_for_counts(&stack.db, (0, 0, 0), SOON).await;
    wait_for_metric(port, "outbox_retention_kept_events", "", 0.0).await;
}

#[tokio::test]
async fn without_the_grant_the_relay_relays_and_says_whom_to_ask_for_what() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let role = format!("relay_{}", stack.db.name());
    let make = format!(
        "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN REPLICATION; SELECT outbox.grant_relay('{role}')"
    );
    stack.db.batch_execute(&make).await.unwrap();
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let port = http_port(&relay).await;
    let id = emit(&stack.db, "'t', '{}'", &[]).await;
    wait_for_status(&stack.db, id, "SENT").await;
    let line = relay.wait_for_log("cannot delete old events").await;
    assert!(line.contains(&format!("SELECT outbox.grant_maintain('{role}')")), "{line}");
    stack.db.batch_execute(&format!("SELECT outbox.grant_maintain('{role}')")).await.unwrap();
    wait_for_counts(&stack.db, (0, 0, 0), SOON).await;
    wait_for_metric(port, "outbox_events_deleted_total", "", 1.0).await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_relay_that_waits_deletes_nothing_until_it_works() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let first = stack.relay().start().await; // keeps everything
    let second = relay(&stack).spawn();
    second.wait_for_log("standby").await;
    let id = emit(&stack.db, "'t', '{}'", &[]).await;
    wait_for_status(&stack.db, id, "SENT").await;
    let port = http_port(&second).await;
    wait_for_metric(port, "outbox_events_deleted_total", "", 0.0).await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '% retention' AND datname = current_database()";
    let sessions: i64 = stack.db.query_one(sessions, &[]).await.unwrap().get(0);
    assert_eq!((sessions, counts(&stack.db).await), (0, (0, 1, 0)));
    first.stop().await;
    wait_for_counts(&stack.db, (0, 0, 0), SOON).await;
}

#[tokio::test]
async fn nothing_is_deleted_unless_it_is_told_for_how_long_to_keep_it() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer(BOUND).await;
    let _relay = stack.relay().start().await;
    let id = emit(&stack.db, "'t', '{}'", &[]).await;
    wait_for_status(&stack.db, id, "SENT").await;
    let aged =
        "SET session_replication_role = replica; UPDATE outbox.events SET processed_at = now() - interval '10 years';
                RESET session_replication_role";
    stack.db.batch_execute(aged).await.unwrap();
    let next = emit(&stack.db, "'t', '{}'", &[]).await;
    wait_for_status(&stack.db, next, "SENT").await;
    assert_eq!(counts(&stack.db).await, (0, 2, 0));
}
