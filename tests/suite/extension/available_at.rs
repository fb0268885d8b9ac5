//! `available_at`: now is null, and so is the past.

use harness::Database;

use super::{on_both_installations, run, value};

on_both_installations!(a_time_that_has_come_is_stored_as_null, a_time_to_come_is_kept);

async fn a_time_that_has_come_is_stored_as_null(db: Database) {
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('a', '{}', available_at => now());
         SELECT outbox.emit('a', '{}', available_at => '2000-01-01');
         SELECT outbox.emit('a', '\\x00'::bytea, available_at => '-infinity');
         INSERT INTO outbox.events (topic, payload, available_at) VALUES ('a', '{}', now() - interval '1 second');
         COMMIT",
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE available_at IS NULL").await, "4");
}

async fn a_time_to_come_is_kept(db: Database) {
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('a', '{}', available_at => now() + interval '1 microsecond');
         INSERT INTO outbox.events (topic, payload, available_at) VALUES ('a', '{}', now() + interval '1 hour');
         COMMIT",
    )
    .await;
    let ahead = "SELECT string_agg((available_at - created_at)::text, ' ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, ahead).await, "00:00:00.000001 01:00:00");
}
