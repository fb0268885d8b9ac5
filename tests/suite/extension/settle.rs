//! `outbox.settle`: the relay writes its verdicts back.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    each_event_gets_its_own_verdict,
    a_finished_event_is_left_alone_and_is_not_missing,
    an_event_that_is_not_visible_yet_is_returned,
    an_event_that_is_gone_is_returned,
    an_event_named_twice_is_settled_once,
    an_empty_batch_is_fine,
    arrays_of_unequal_length_are_refused,
    stamps_are_those_of_the_transaction,
    a_locked_row_is_passed_over_if_asked_and_told_from_one_that_is_not_there,
    a_retry_of_an_event_that_someone_has_finished_is_told,
);

/// SENT for all that is pending.
pub(super) const SETTLE_ALL: &str = "SELECT count(*)
    FROM (SELECT array_agg(id) AS ids FROM outbox.events WHERE status = 'PENDING') AS pending,
    LATERAL outbox.settle(ids, array_fill('SENT'::outbox.status, ARRAY[cardinality(ids)]),
        array_fill(NULL::text, ARRAY[cardinality(ids)]))";
pub(super) const SENT: &str = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";

async fn each_event_gets_its_own_verdict(db: Database) {
    run(
        &db,
        "SELECT outbox.emit(topic, '{}') FROM unnest('{sent,failed,again}'::text[]) AS topic;
         UPDATE outbox.events SET attempts = attempts + 1, last_error = 'earlier'",
    )
    .await;
    let missing = "SELECT count(*) FROM outbox.settle(
        (SELECT array_agg(id ORDER BY topic) FROM outbox.events),
        '{PENDING,FAILED,SENT}', '{nack,312 NO_ROUTE,ignored}')";
    assert_eq!(value(&db, missing).await, "0");
    let rows = "SELECT string_agg(concat_ws(' ', topic, status, attempts, coalesce(last_error, '-'),
        last_attempted_at IS NOT NULL, processed_at IS NOT NULL), ', ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, rows).await, "sent SENT 2 - t t, failed FAILED 2 312 NO_ROUTE t t, again PENDING 2 nack t f");
}

async fn a_finished_event_is_left_alone_and_is_not_missing(db: Database) {
    run(
        &db,
        "SELECT outbox.emit(topic, '{}') FROM unnest('{a,b}'::text[]) AS topic;
         UPDATE outbox.events SET status = 'SENT' WHERE topic = 'a';
         UPDATE outbox.events SET status = 'FAILED', last_error = 'why' WHERE topic = 'b'",
    )
    .await;
    let before = value(&db, "SELECT jsonb_agg(e ORDER BY seq) FROM outbox.events AS e").await;
    let missing = "SELECT count(*) FROM outbox.settle(
        (SELECT array_agg(id) FROM outbox.events), '{FAILED,SENT}', '{other,NULL}')";
    assert_eq!(value(&db, missing).await, "0");
    assert_eq!(value(&db, "SELECT jsonb_agg(e ORDER BY seq) FROM outbox.events AS e").await, before);
}

async fn an_event_that_is_not_visible_yet_is_returned(db: Database) {
    let id = "0190163d-8694-739b-aea5-966c26f8ad91";
    let other = db.connect().await;
    run(&other, &format!("BEGIN; INSERT INTO outbox.events (id, topic, payload) VALUES ('{id}', 'a', '{{}}')")).await;
    run(&db, "SELECT outbox.emit('b', '{}')").await;
    let settle = format!(
        "SELECT string_agg(missing.id::text, ' ') FROM outbox.settle(
            (SELECT array_agg(id) FROM outbox.events) || '{id}'::uuid,
            array_fill('SENT'::outbox.status, ARRAY[(SELECT count(*)::int + 1 FROM outbox.events)]),
            array_fill(NULL::text, ARRAY[(SELECT count(*)::int + 1 FROM outbox.events)])) AS missing"
    );
    assert_eq!(value(&db, &settle).await, id);
    assert_eq!(value(&db, "SELECT status FROM outbox.events").await, "SENT");

    run(&other, "COMMIT").await;
    let settle = format!("SELECT count(*) FROM outbox.settle('{{{id}}}', '{{SENT}}', '{{NULL}}')");
    assert_eq!(value(&db, &settle).await, "0");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE status = 'SENT'").await, "2");
}

async fn an_event_that_is_gone_is_returned(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    run(&db, "DELETE FROM outbox.events").await;
    let settle =
        format!("SELECT string_agg(m.id::text, ' ') FROM outbox.settle('{{{id}}}', '{{SENT}}', '{{NULL}}') AS m");
    assert_eq!(value(&db, &settle).await, id);
}

async fn an_event_named_twice_is_settled_once(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    let settle = format!("SELECT count(*) FROM outbox.settle('{{{id},{id}}}', '{{PENDING,PENDING}}', '{{x,x}}')");
    assert_eq!(value(&db, &settle).await, "0");
    assert_eq!(value(&db, "SELECT attempts FROM outbox.events").await, "1");
}

async fn an_empty_batch_is_fine(db: Database) {
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.settle('{}', '{}', '{}')").await, "0");
}

async fn arrays_of_unequal_length_are_refused(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    for arrays in ["'{}', '{NULL}'", "'{SENT}', '{}'", "'{SENT,SENT}', '{NULL}'", "NULL, NULL"] {
        let error = refusal(&db, &format!("SELECT outbox.settle('{{{id}}}', {arrays})")).await;
        assert_eq!(error.code().code(), "2202E", "{arrays}");
    }
}

async fn stamps_are_those_of_the_transaction(db: Database) {
    // The status trigger tells a write-back by that, and lets it pass without a call.
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    run(
        &db,
        "CREATE OR REPLACE FUNCTION outbox.move_status() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN RAISE EXCEPTION ''called''; END'",
    )
    .await;
    run(&db, &format!("SELECT outbox.settle('{{{id}}}', '{{PENDING}}', '{{nack}}')")).await;
    run(&db, &format!("SELECT outbox.settle('{{{id}}}', '{{FAILED}}', '{{nack}}')")).await;
    let error = refusal(&db, "UPDATE outbox.events SET status = 'PENDING'").await;
    assert_eq!(error.message(), "called");
}

async fn a_locked_row_is_passed_over_if_asked_and_told_from_one_that_is_not_there(db: Database) {
    run(&db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 3) AS n").await;
    let other = db.connect().await;
    run(&other, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '2' FOR UPDATE").await;
    let unknown = "0190163d-8694-739b-aea5-966c26f8ad91";
    let settle = format!(
        "SELECT string_agg(concat_ws(' ', e.payload, coalesce(s.status::text, 'not there')), ', ' ORDER BY e.payload::text)
         FROM outbox.settle((SELECT array_agg(id) FROM outbox.events) || '{unknown}'::uuid,
             '{{SENT,SENT,SENT,SENT}}', '{{NULL,NULL,NULL,NULL}}', skip_locked => true) AS s
         LEFT JOIN outbox.events AS e USING (id)"
    );
    assert_eq!(value(&db, &settle).await, "2 PENDING, not there");
    let sent = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.events WHERE status = 'SENT'";
    assert_eq!(value(&db, sent).await, "1 3");
    run(&other, "COMMIT").await;
    assert_eq!(value(&db, &settle).await, "not there");
    assert_eq!(value(&db, sent).await, "1 2 3");
}

async fn a_retry_of_an_event_that_someone_has_finished_is_told(db: Database) {
    run(&db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 2) AS n").await;
    run(&db, "UPDATE outbox.events SET status = 'FAILED'").await;
    let settle = "SELECT string_agg(concat_ws(' ', e.payload, s.status), ', ')
        FROM outbox.settle((SELECT array_agg(id ORDER BY seq) FROM outbox.events), '{PENDING,SENT}', '{nack,NULL}') AS s
        JOIN outbox.events AS e USING (id)";
    assert_eq!(value(&db, settle).await, "1 FAILED");
}
