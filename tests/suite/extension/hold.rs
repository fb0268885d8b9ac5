//! An event that holds its key: the later ones of the key wait in the table until it has its verdict, or is released.

use harness::Database;

use super::{on_both_installations, refusal, run, text, value};

on_both_installations!(
    what_is_behind_an_event_that_holds_its_key_is_not_read,
    a_retry_waits_for_its_time_and_is_due_then,
    a_final_verdict_ends_the_hold,
    a_failed_event_that_holds_its_key_is_released_and_the_relay_is_woken,
    a_replay_ends_the_hold_and_is_read_before_what_waited,
    giving_up_a_retried_event_by_hand_ends_the_hold_and_wakes_the_relay,
    deleting_an_event_ends_its_hold_and_wakes_the_relay,
    only_the_relay_may_make_an_event_hold_its_key,
    the_backlog_tells_retries_from_scheduled_events,
);

/// Events 1 to 4 of key `k`, and 5 of another, 6 of none.
const EVENTS: &str = "SELECT outbox.emit('t', to_jsonb(n), aggregate_type => CASE WHEN n < 6 THEN 'a' END,
    aggregate_id => CASE WHEN n < 5 THEN 'k' WHEN n = 5 THEN 'other' END) FROM generate_series(1, 6) AS n";
const PENDING: &str =
    "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.pending_page_by_bytes(0, 100, 1000000)";
const KEY_HOLDERS: &str = "SELECT string_agg(aggregate_type || '/' || aggregate_id, ' ') FROM outbox.key_holders(100)";

async fn verdict(db: &Database, number: i32, status: &str, retry_ms: &str, holds: bool) {
    let settle = format!(
        "SELECT outbox.settle(ARRAY[id], '{{{status}}}', '{{nack}}', ARRAY[{retry_ms}]::int[], ARRAY[{holds}])
         FROM outbox.events WHERE payload::text = '{number}'"
    );
    run(db, &settle).await;
}

/// Whether the statement writes the message that wakes the relay.
async fn wakes_the_relay(db: &Database, sql: &str) -> bool {
    run(db, "BEGIN; SELECT set_config('outbox.rung_in', '', false)").await;
    run(db, sql).await;
    let woken = value(db, "SELECT current_setting('outbox.rung_in') <> ''").await;
    run(db, "COMMIT").await;
    woken == "true"
}

async fn what_is_behind_an_event_that_holds_its_key_is_not_read(db: Database) {
    run(&db, EVENTS).await;
    assert_eq!(value(&db, PENDING).await, "1 2 3 4 5 6");
    verdict(&db, 2, "PENDING", "60000", true).await;
    assert_eq!(value(&db, PENDING).await, "5 6");
    let all = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.pending_page_by_bytes(0, 100, 1000000, respect_holds => false)";
    assert_eq!(value(&db, all).await, "1 3 4 5 6", "where keys mean nothing");
    assert_eq!(value(&db, KEY_HOLDERS).await, "a/k");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.key_holders(0)").await, "0");
}

async fn a_retry_waits_for_its_time_and_is_due_then(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "60000", true).await;
    verdict(&db, 6, "PENDING", "0", false).await;
    let due = "SELECT string_agg(payload::text, ' ') FROM outbox.due_page(100, 1000000, NULL, NULL)";
    assert_eq!(value(&db, due).await, "6");
    assert_eq!(value(&db, "SELECT outbox.next_due() BETWEEN 50000 AND 60000").await, "true");
    let row =
        "SELECT concat_ws(' ', status, attempts, last_error, available_at = last_attempted_at + interval '1 minute')
               FROM outbox.events WHERE payload::text = '1'";
    assert_eq!(value(&db, row).await, "PENDING 1 nack t");
}

async fn a_final_verdict_ends_the_hold(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "0", true).await;
    verdict(&db, 1, "SENT", "NULL", false).await;
    assert_eq!(text(&db, KEY_HOLDERS).await, None);
    assert_eq!(value(&db, PENDING).await, "2 3 4 5 6");
}

async fn a_failed_event_that_holds_its_key_is_released_and_the_relay_is_woken(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "FAILED", "NULL", true).await;
    assert_eq!(value(&db, PENDING).await, "5 6");
    assert_eq!(value(&db, "SELECT string_agg(holds_key::text, ' ') FROM outbox.failed").await, "true");
    assert!(wakes_the_relay(&db, "SELECT outbox.release(id) FROM outbox.events WHERE payload::text = '1'").await);
    assert_eq!(value(&db, PENDING).await, "2 3 4 5 6");
    for number in [1, 2] {
        let again = format!("SELECT outbox.release(id) FROM outbox.events WHERE payload::text = '{number}'");
        assert_eq!(value(&db, &again).await, "false", "it holds nothing");
    }
    assert_eq!(value(&db, "SELECT status FROM outbox.events WHERE payload::text = '1'").await, "FAILED");
}

async fn a_replay_ends_the_hold_and_is_read_before_what_waited(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "0", true).await;
    verdict(&db, 1, "FAILED", "NULL", true).await;
    assert!(wakes_the_relay(&db, "SELECT outbox.replay(id) FROM outbox.events WHERE payload::text = '1'").await);
    assert_eq!(text(&db, KEY_HOLDERS).await, None);
    assert_eq!(value(&db, PENDING).await, "1 2 3 4 5 6");
}

async fn giving_up_a_retried_event_by_hand_ends_the_hold_and_wakes_the_relay(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "60000", true).await;
    assert!(
        wakes_the_relay(
            &db,
            "UPDATE outbox.events SET status = 'FAILED', last_error = 'given up' WHERE payload::text = '1'"
        )
        .await
    );
    assert_eq!(value(&db, PENDING).await, "2 3 4 5 6");
    assert!(
        !wakes_the_relay(&db, "UPDATE outbox.events SET status = 'FAILED' WHERE payload::text = '5'").await,
        "it held nothing"
    );
}

async fn deleting_an_event_ends_its_hold_and_wakes_the_relay(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "60000", true).await;
    assert!(!wakes_the_relay(&db, "DELETE FROM outbox.events WHERE payload::text = '5'").await, "it held nothing");
    assert!(wakes_the_relay(&db, "DELETE FROM outbox.events WHERE payload::text = '1'").await);
    assert_eq!(value(&db, PENDING).await, "2 3 4 6");
}

async fn only_the_relay_may_make_an_event_hold_its_key(db: Database) {
    run(&db, EVENTS).await;
    let error = refusal(&db, "UPDATE outbox.events SET holds_key = true WHERE payload::text = '1'").await;
    assert_eq!((error.code().code(), error.column()), ("23514", Some("holds_key")));
    verdict(&db, 1, "PENDING", "60000", true).await;
    let error = refusal(&db, "UPDATE outbox.events SET holds_key = false WHERE payload::text = '1'").await;
    assert_eq!(error.column(), Some("holds_key"));
    let error = refusal(&db, "UPDATE outbox.events SET available_at = now() WHERE payload::text = '1'").await;
    assert_eq!(error.column(), Some("available_at"));
    let forged = "UPDATE outbox.events SET status = 'SENT', attempts = attempts + 1, last_error = NULL,
                  last_attempted_at = now(), processed_at = now(), holds_key = true WHERE payload::text = '2'";
    run(&db, forged).await;
    assert_eq!(value(&db, KEY_HOLDERS).await, "a/k", "the retried one alone");
}

async fn the_backlog_tells_retries_from_scheduled_events(db: Database) {
    run(&db, EVENTS).await;
    verdict(&db, 1, "PENDING", "60000", true).await;
    run(&db, "SELECT outbox.emit('t', '7', available_at => now() + interval '1 hour')").await;
    let backlog = "SELECT concat_ws(' ', pending, scheduled, retrying, failed) FROM outbox.backlog";
    assert_eq!(value(&db, backlog).await, "5 1 1 0");
}
