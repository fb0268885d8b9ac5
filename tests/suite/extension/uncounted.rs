//! Attempts that count, and those that do not: `first_attempted_at`, from which `retry_for` runs.

use harness::Database;

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    an_attempt_without_an_error_does_not_count,
    the_first_attempt_that_counts_is_stamped_and_a_replay_forgets_it,
    only_settle_writes_an_attempt_that_does_not_count,
    the_first_attempts_time_cannot_be_made_up,
);

const ROW: &str = "SELECT concat_ws(' ', status, attempts, coalesce(last_error, '-'), holds_key, available_at > now(),
    first_attempted_at IS NULL, last_attempted_at IS NULL, processed_at IS NULL) FROM outbox.events";

async fn settle(db: &Database, status: &str, error: &str) {
    let settle = format!(
        "SELECT outbox.settle(ARRAY[id], '{{{status}}}', '{{{error}}}', '{{60000}}', '{{true}}') FROM outbox.events"
    );
    run(db, &settle).await;
}

async fn an_attempt_without_an_error_does_not_count(db: Database) {
    run(&db, "SELECT outbox.emit('a', '{}', aggregate_id => 'k')").await;
    settle(&db, "PENDING", "NULL").await;
    assert_eq!(value(&db, ROW).await, "PENDING 0 - t t t f t");
    settle(&db, "PENDING", "nack").await;
    assert_eq!(value(&db, ROW).await, "PENDING 1 nack t t f f t");
    let first = value(&db, "SELECT first_attempted_at FROM outbox.events").await;
    settle(&db, "PENDING", "NULL").await;
    assert_eq!(value(&db, ROW).await, "PENDING 1 nack t t f f t", "the last error that counted is kept");
    settle(&db, "SENT", "NULL").await;
    assert_eq!(value(&db, ROW).await, "SENT 2 - f t f f f");
    assert_eq!(value(&db, "SELECT first_attempted_at FROM outbox.events").await, first);
}

async fn the_first_attempt_that_counts_is_stamped_and_a_replay_forgets_it(db: Database) {
    run(&db, "SELECT outbox.emit('a', '{}')").await;
    let counted = "UPDATE outbox.events SET attempts = attempts + 1, last_error = 'nack'";
    run(&db, counted).await;
    let stamped = "SELECT first_attempted_at = last_attempted_at FROM outbox.events";
    assert_eq!(value(&db, stamped).await, "true");
    run(&db, counted).await;
    assert_eq!(value(&db, stamped).await, "false");
    run(&db, "UPDATE outbox.events SET status = 'FAILED'").await;
    assert_eq!(value(&db, "SELECT first_attempted_at < processed_at FROM outbox.events").await, "true");
    run(&db, "SELECT outbox.replay(id) FROM outbox.events").await;
    assert_eq!(value(&db, "SELECT first_attempted_at IS NULL FROM outbox.events").await, "true");
}

async fn only_settle_writes_an_attempt_that_does_not_count(db: Database) {
    run(&db, "SELECT outbox.emit('a', '{}')").await;
    let relay = role(&db, "relay").await;
    run(&db, &format!("SELECT outbox.grant_relay('{relay}'); SELECT outbox.grant_operate('{relay}')")).await;
    let session = db.connect_as(&relay).await;
    let uncounted = "UPDATE outbox.events SET last_attempted_at = now(), available_at = now() + interval '1 h'";
    assert_eq!(refusal(&session, uncounted).await.code().code(), "42501");
    // For those who may write everything, whatever else it says is refused as before.
    for more in ["last_error = 'x'", "first_attempted_at = now()", "processed_at = now()"] {
        let error = refusal(&db, &format!("{uncounted}, {more}")).await;
        assert_eq!(error.code().code(), "23514", "{more}");
    }
    let past = "UPDATE outbox.events SET last_attempted_at = now(), available_at = '2000-01-01'";
    assert_eq!(refusal(&db, past).await.column(), Some("available_at"));
    run(&db, "SELECT outbox.settle(ARRAY[id], '{PENDING}', '{NULL}', '{1}') FROM outbox.events").await;
}

async fn the_first_attempts_time_cannot_be_made_up(db: Database) {
    run(&db, "SELECT outbox.emit('a', '{}')").await;
    let error = refusal(&db, "UPDATE outbox.events SET first_attempted_at = '2000-01-01'").await;
    assert_eq!((error.code().code(), error.column()), ("23514", Some("first_attempted_at")));
    run(&db, "UPDATE outbox.events SET attempts = 1, last_error = 'x', first_attempted_at = '2000-01-01'").await;
    run(&db, "UPDATE outbox.events SET attempts = 2, last_error = 'x', first_attempted_at = NULL").await;
    let recent =
        "SELECT first_attempted_at > '2020-01-01' AND first_attempted_at < last_attempted_at FROM outbox.events";
    assert_eq!(value(&db, recent).await, "true");
}
