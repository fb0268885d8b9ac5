//! `outbox.last_settled`: from which time on a broker's log is read back.

use harness::Database;

use super::{on_both_installations, run, text, value};

on_both_installations!(
    without_a_pending_event_it_is_the_present,
    it_is_never_after_the_creation_of_what_was_published_without_a_verdict,
    behind_a_backlog_the_last_verdict_is_found,
    where_nothing_tells_it_is_unknown,
);

async fn without_a_pending_event_it_is_the_present(db: Database) {
    let is_now = "SELECT outbox.last_settled() BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp()";
    assert_eq!(value(&db, is_now).await, "true");
    run(&db, "SELECT outbox.emit('a', '1'); UPDATE outbox.events SET status = 'FAILED'").await;
    assert_eq!(value(&db, is_now).await, "true");
}

async fn it_is_never_after_the_creation_of_what_was_published_without_a_verdict(db: Database) {
    // Each in a transaction of its own, so that their times differ.
    for n in 1..=4 {
        run(&db, &format!("SELECT outbox.emit('a', '{n}')")).await;
    }
    run(&db, "SELECT outbox.emit('a', '5', available_at => now() + interval '1 hour')").await;
    let is_time_of =
        |n| format!("SELECT outbox.last_settled() = created_at FROM outbox.events WHERE payload::text = '{n}'");
    assert_eq!(value(&db, &is_time_of(1)).await, "true");
    run(&db, "UPDATE outbox.events SET status = 'SENT' WHERE payload::text IN ('1', '3')").await;
    assert_eq!(value(&db, "SELECT outbox.last_settled() = max(processed_at) FROM outbox.events").await, "true");
    run(&db, "DELETE FROM outbox.events WHERE status = 'SENT'").await;
    assert_eq!(value(&db, &is_time_of(2)).await, "true");
    run(&db, "DELETE FROM outbox.events WHERE payload::text < '5'").await;
    assert_eq!(value(&db, &is_time_of(5)).await, "true");
}

async fn behind_a_backlog_the_last_verdict_is_found(db: Database) {
    run(&db, "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(1, 10) AS n").await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(11, 3000) AS n").await;
    run(&db, "UPDATE outbox.events SET status = 'SENT' WHERE payload::text::int <= 10").await;
    assert_eq!(value(&db, "SELECT outbox.last_settled() = max(processed_at) FROM outbox.events").await, "true");
}

async fn where_nothing_tells_it_is_unknown(db: Database) {
    let deferred = "SELECT outbox.emit('a', to_jsonb(n), available_at => now() + interval '1 hour')";
    run(&db, &format!("{deferred} FROM generate_series(1, 1000) AS n")).await;
    assert_eq!(text(&db, "SELECT outbox.last_settled()").await, None);
}
