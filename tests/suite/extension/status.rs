//! The legal moves of a status, by an operator's plain UPDATE.

use harness::Database;

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    a_verdict_is_stamped,
    an_attempt_that_will_be_repeated_is_stamped,
    a_replay_starts_over_and_keeps_the_error,
    stamps_that_an_operator_makes_up_are_not_trusted,
    a_finished_event_cannot_get_another_verdict,
    counters_and_times_are_not_written_alone,
    writing_the_same_values_is_no_change,
    the_envelope_is_final,
    an_operator_with_update_on_status_alone_can_replay,
    replays_are_counted_and_the_count_cannot_be_made_up,
);

const ROW: &str = "SELECT concat_ws(' ', status, attempts, coalesce(last_error, '-'),
    last_attempted_at IS NOT NULL, processed_at IS NOT NULL) FROM outbox.events";

async fn event(db: &Database) {
    run(db, "DELETE FROM outbox.events; SELECT outbox.emit('a', '{\"x\": 1}', headers => '{\"h\": 1}')").await;
}

async fn update(db: &Database, set: &str) {
    run(db, &format!("UPDATE outbox.events SET {set}")).await;
}

async fn a_verdict_is_stamped(db: Database) {
    event(&db).await;
    update(&db, "status = 'SENT'").await;
    assert_eq!(value(&db, ROW).await, "SENT 1 - t t");
    event(&db).await;
    update(&db, "status = 'FAILED', last_error = 'no such customer'").await;
    assert_eq!(value(&db, ROW).await, "FAILED 1 no such customer t t");
}

async fn an_attempt_that_will_be_repeated_is_stamped(db: Database) {
    event(&db).await;
    update(&db, "attempts = attempts + 1, last_error = 'nack'").await;
    assert_eq!(value(&db, ROW).await, "PENDING 1 nack t f");
    update(&db, "status = 'SENT'").await;
    assert_eq!(value(&db, ROW).await, "SENT 2 - t t");
}

async fn a_replay_starts_over_and_keeps_the_error(db: Database) {
    event(&db).await;
    update(&db, "status = 'FAILED', last_error = 'NO_ROUTE'").await;
    update(&db, "status = 'PENDING'").await;
    assert_eq!(value(&db, ROW).await, "PENDING 0 NO_ROUTE t f");
    update(&db, "status = 'SENT'").await;
    update(&db, "status = 'PENDING'").await;
    assert_eq!(value(&db, ROW).await, "PENDING 0 - t f");
}

async fn stamps_that_an_operator_makes_up_are_not_trusted(db: Database) {
    event(&db).await;
    let made_up =
        "attempts = 77, replays = 77, last_attempted_at = '2000-01-01', processed_at = '2000-01-01', last_error = 'x'";
    update(&db, &format!("status = 'SENT', {made_up}")).await;
    assert_eq!(value(&db, ROW).await, "SENT 1 - t t");
    let recent = "SELECT last_attempted_at > '2020-01-01' AND processed_at > '2020-01-01' FROM outbox.events";
    assert_eq!(value(&db, recent).await, "true");
    update(&db, &format!("status = 'PENDING', {made_up}")).await;
    assert_eq!(value(&db, ROW).await, "PENDING 0 - t f");
    // All that settle() stamps, but for one thing.
    for almost in [
        "processed_at = NULL",
        "processed_at = '2000-01-01'",
        "last_attempted_at = NULL",
        "attempts = NULL",
        "last_error = 'x'",
    ] {
        event(&db).await;
        let stamps = [
            "status = 'SENT'",
            "attempts = attempts + 1",
            "last_error = NULL",
            "last_attempted_at = now()",
            "processed_at = now()",
        ];
        let column = almost.split(' ').next().unwrap();
        let others: Vec<_> = stamps.into_iter().filter(|stamp| !stamp.starts_with(column)).collect();
        update(&db, &format!("{}, {almost}", others.join(", "))).await;
        assert_eq!(value(&db, ROW).await, "SENT 1 - t t", "{almost}");
    }
}

async fn a_finished_event_cannot_get_another_verdict(db: Database) {
    for (from, to) in [("SENT", "FAILED"), ("FAILED", "SENT")] {
        event(&db).await;
        update(&db, &format!("status = '{from}'")).await;
        let error = refusal(&db, &format!("UPDATE outbox.events SET status = '{to}'")).await;
        let id = value(&db, "SELECT id FROM outbox.events").await;
        assert_eq!(error.message(), format!("status of event {id} cannot go from {from} to {to}"));
        assert_eq!((error.code().code(), error.column()), ("23514", Some("status")));
        assert!(error.hint().unwrap().contains("outbox.replay"));
    }
    event(&db).await;
    refusal(&db, "UPDATE outbox.events SET status = NULL").await;
}

async fn counters_and_times_are_not_written_alone(db: Database) {
    for before in ["attempts = attempts + 1, last_error = 'x'", "status = 'FAILED', last_error = 'x'"] {
        for (column, set) in [
            ("attempts", "attempts = 7"),
            ("replays", "replays = 7"),
            ("last_error", "last_error = 'y'"),
            ("last_attempted_at", "last_attempted_at = now()"),
            ("processed_at", "processed_at = '2000-01-01'"),
        ] {
            event(&db).await;
            update(&db, before).await;
            let error = refusal(&db, &format!("UPDATE outbox.events SET {set}")).await;
            assert_eq!((error.code().code(), error.column()), ("23514", Some(column)));
            assert!(error.message().starts_with(&format!("{column} of event ")), "{}", error.message());
        }
    }
}

async fn writing_the_same_values_is_no_change(db: Database) {
    for status in ["PENDING", "SENT", "FAILED"] {
        event(&db).await;
        update(&db, &format!("status = '{status}'")).await;
        let before = value(&db, "SELECT to_jsonb(e) FROM outbox.events AS e").await;
        // As an ORM does that saves whole objects; seq cannot be written at all.
        update(
            &db,
            "id = id, created_at = created_at, status = status, attempts = attempts, topic = topic, exchange = exchange,
             event_type = event_type, aggregate_type = aggregate_type, aggregate_id = aggregate_id, payload = payload,
             payload_bytes = payload_bytes, content_type = content_type, headers = headers,
             correlation_id = correlation_id, available_at = available_at, last_error = last_error,
             last_attempted_at = last_attempted_at, processed_at = processed_at",
        )
        .await;
        assert_eq!(value(&db, "SELECT to_jsonb(e) FROM outbox.events AS e").await, before);
    }
}

async fn the_envelope_is_final(db: Database) {
    event(&db).await;
    for (column, new) in [
        ("id", "gen_random_uuid()"),
        ("created_at", "'2000-01-01'"),
        ("topic", "'other'"),
        ("exchange", "'x'"),
        ("event_type", "'x'"),
        ("aggregate_type", "'x'"),
        ("aggregate_id", "'x'"),
        ("payload", "'{}'"),
        ("payload_bytes", "'\\x00'"),
        ("content_type", "'x'"),
        ("headers", "NULL"),
        ("correlation_id", "'x'"),
        ("available_at", "'2999-01-01'"),
    ] {
        let error = refusal(&db, &format!("UPDATE outbox.events SET {column} = {new}, status = 'SENT'")).await;
        assert_eq!((error.code().code(), error.column()), ("23514", Some(column)));
        assert!(error.message().starts_with(&format!("{column} of event ")), "{}", error.message());
        assert!(error.hint().is_some());
    }
    assert_eq!(refusal(&db, "UPDATE outbox.events SET seq = DEFAULT").await.column(), Some("seq"));
    // A body is its text, blanks and all, whatever jsonb would make of it.
    run(&db, "DELETE FROM outbox.events; SELECT outbox.emit('a', '{\"a\": \"\\u0000\"}')").await;
    for (column, new) in [("payload", "(' ' || payload::text)::json"), ("topic", "'other'")] {
        let error = refusal(&db, &format!("UPDATE outbox.events SET {column} = {new}")).await;
        assert_eq!((error.code().code(), error.column()), ("23514", Some(column)));
    }
    run(&db, "DELETE FROM outbox.events; SELECT outbox.emit('a', '{}')").await;
    assert_eq!(refusal(&db, "UPDATE outbox.events SET seq = 1").await.code().code(), "428C9");
}

async fn an_operator_with_update_on_status_alone_can_replay(db: Database) {
    let operator = role(&db, "operator").await;
    event(&db).await;
    update(&db, "status = 'FAILED', last_error = 'x'").await;
    run(&db, &format!("GRANT SELECT, UPDATE (status) ON outbox.events TO {operator}")).await;
    let session = db.connect_as(&operator).await;
    run(&session, "UPDATE outbox.events SET status = 'PENDING' WHERE status = 'FAILED'").await;
    assert_eq!(value(&db, ROW).await, "PENDING 0 x t f");
}

async fn replays_are_counted_and_the_count_cannot_be_made_up(db: Database) {
    const REPLAYS: &str = "SELECT replays FROM outbox.events";
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let made_up = "INSERT INTO outbox.events (topic, payload, replays) VALUES ('a', '{}', 7)";
    assert_eq!(refusal(&*db.connect_as(&app).await, made_up).await.code().code(), "42501");
    event(&db).await;
    assert_eq!(value(&db, REPLAYS).await, "0");
    for (number, verdict) in ["SENT", "FAILED", "SENT"].into_iter().enumerate() {
        let settle = format!("SELECT outbox.settle(ARRAY[id], '{{{verdict}}}', '{{NULL}}') FROM outbox.events");
        run(&db, &settle).await;
        assert_eq!(value(&db, REPLAYS).await, number.to_string(), "a verdict is none");
        match number {
            0 => run(&db, "SELECT outbox.replay(id) FROM outbox.events").await,
            1 => run(&db, "SELECT outbox.replay_many(topic => 'a')").await,
            _ => update(&db, "status = 'PENDING', replays = 77").await,
        }
        assert_eq!(value(&db, REPLAYS).await, (number + 1).to_string());
    }
    update(&db, "attempts = attempts + 1, last_error = 'nack', replays = 77").await;
    update(&db, "status = 'SENT', replays = 77").await;
    assert_eq!(value(&db, REPLAYS).await, "3");
    // All that settle() stamps, and more.
    update(&db, "status = 'PENDING'").await;
    update(&db, "status = 'SENT', attempts = 1, last_error = NULL, last_attempted_at = now(), processed_at = now(), replays = 77").await;
    assert_eq!(value(&db, REPLAYS).await, "4");
}
