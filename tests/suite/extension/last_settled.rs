//! `outbox.last_settled`: from which time on a broker's log is read back, and what relays keep for their successors.

use harness::Database;

use super::{on_both_installations, run, text, value};

on_both_installations!(
    without_a_pending_event_it_is_the_present,
    it_is_never_after_the_creation_of_what_was_published_without_a_verdict,
    behind_a_backlog_the_last_verdict_is_found,
    where_nothing_tells_it_is_unknown,
    a_floor_stays_at_its_earliest_until_it_is_taken_away,
    an_event_in_doubt_is_kept_until_it_has_its_verdict,
    an_event_in_doubt_is_kept_although_its_row_is_not_visible_yet,
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

/// What the publisher `p` finds: the last digit of each event, replays, whether it is delivered, and its minutes.
const KEPT: &str =
    "SELECT coalesce(string_agg(concat_ws(' ', right(id::text, 1), replays, delivered, microseconds_ago / 60000000),
    ', ' ORDER BY id, replays), 'none') FROM outbox.events_in_doubt('p', 10)";
const NOTHING: &str = "SELECT outbox.keep_in_doubt('p', '{}', '{}', '{}', '{}', NULL)";

fn row(n: u8) -> String {
    format!("01900000-0000-7000-8000-00000000000{n}")
}

async fn a_floor_stays_at_its_earliest_until_it_is_taken_away(db: Database) {
    let keep = |publisher: &str, minutes: u32| {
        format!(
            "SELECT outbox.keep_in_doubt('{publisher}', '{{}}', '{{}}', '{{}}', '{{}}', {minutes}::bigint * 60000000)"
        )
    };
    run(&db, &keep("p", 60)).await;
    run(&db, &keep("p", 30)).await;
    assert_eq!(value(&db, KEPT).await, "0 -1 f 60");
    run(&db, NOTHING).await;
    assert_eq!(value(&db, KEPT).await, "none");
    run(&db, &keep("p", 60)).await;
    run(&db, &keep("another", 5)).await;
    assert_eq!(value(&db, KEPT).await, "none", "a name that publishes no more needs none");
}

async fn an_event_in_doubt_is_kept_until_it_has_its_verdict(db: Database) {
    for n in 1..=3 {
        run(&db, &format!("INSERT INTO outbox.events (id, topic, payload) VALUES ('{}', 'a', '1')", row(n))).await;
    }
    let ids = [1, 2, 3].map(row).join(",");
    let minutes = "'{300000000,600000000,900000000}'";
    let all = format!("SELECT outbox.keep_in_doubt('p', '{{{ids}}}', '{{0,0,0}}', {minutes}, '{{f,t,f}}', NULL)");
    run(&db, &all).await;
    assert_eq!(value(&db, KEPT).await, "1 0 f 5, 2 0 t 10, 3 0 f 15");
    let of_another = "SELECT count(*) FROM outbox.events_in_doubt('q', 10)";
    assert_eq!(value(&db, of_another).await, "0", "a copy of the database has another publisher");
    let first = format!("SELECT outbox.keep_in_doubt('p', '{{{}}}', '{{0}}', '{{300000000}}', '{{t}}', NULL)", row(1));
    run(&db, &first).await;
    run(&db, &format!("UPDATE outbox.events SET status = 'SENT' WHERE id = '{}'", row(2))).await;
    assert_eq!(value(&db, KEPT).await, "1 0 t 5, 3 0 f 15");
    run(&db, &format!("SELECT outbox.replay('{}')", row(2))).await;
    assert_eq!(value(&db, KEPT).await, "1 0 t 5, 3 0 f 15", "a replay is another delivery");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.in_doubt").await, "3");
    run(&db, NOTHING).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.in_doubt").await, "2");
}

async fn an_event_in_doubt_is_kept_although_its_row_is_not_visible_yet(db: Database) {
    let keep = format!("SELECT outbox.keep_in_doubt('p', '{{{}}}', '{{0}}', '{{90000000000}}', '{{t}}', NULL)", row(9));
    run(&db, &keep).await;
    run(&db, NOTHING).await;
    assert_eq!(value(&db, KEPT).await, "9 0 t 1500");
    run(&db, "UPDATE outbox.in_doubt SET kept_at = now() - interval '25 h'").await;
    run(&db, NOTHING).await;
    assert_eq!(value(&db, KEPT).await, "none", "after a day the row is gone for good");
}
