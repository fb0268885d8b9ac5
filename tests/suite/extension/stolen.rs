//! What whoever has stolen a role's password can do, as SECURITY.md says it.

use harness::{Database, Postgres};

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    an_emitter_learns_only_that_an_id_is_taken_and_cannot_forge_who_or_when,
    a_relays_role_can_call_what_is_pending_sent_and_read_it_but_nothing_that_is_finished,
    an_operator_chooses_a_name_for_the_audit_but_not_the_role_and_cannot_change_it,
);

async fn an_emitter_learns_only_that_an_id_is_taken_and_cannot_forge_who_or_when(db: Database) {
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let id = value(&db, "SELECT outbox.emit('a', '{}'::jsonb)").await;
    let session = db.connect_as(&app).await;
    let again = format!("INSERT INTO outbox.events (id, topic, payload) VALUES ('{id}', 'a', '{{}}')");
    assert_eq!(refusal(&session, &again).await.code().code(), "23505");
    for (column, forged, code) in [
        ("created_at", "'1999-01-01'", "42501"),
        ("status", "'SENT'", "42501"),
        ("attempts", "7", "42501"),
        ("seq", "1", "428C9"), // only the sequence gives numbers
    ] {
        let forge = format!("INSERT INTO outbox.events (topic, payload, {column}) VALUES ('a', '{{}}', {forged})");
        assert_eq!(refusal(&session, &forge).await.code().code(), code, "{column}");
    }
    let returning = "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}') RETURNING seq";
    assert_eq!(refusal(&session, returning).await.code().code(), "42501");
}

async fn a_relays_role_can_call_what_is_pending_sent_and_read_it_but_nothing_that_is_finished(db: Database) {
    let relay = role(&db, "relay").await;
    run(&db, &format!("SET client_min_messages = warning; SELECT outbox.grant_relay('{relay}')")).await;
    let finished = value(&db, "SELECT outbox.emit('a', '\"old secret\"'::jsonb)").await;
    run(&db, "UPDATE outbox.events SET status = 'SENT'").await;
    let pending = value(&db, "SELECT outbox.emit('a', '\"new secret\"'::jsonb)").await;
    let session = db.connect_as(&relay).await;
    let read = "SELECT string_agg(to_jsonb(p)::text, '') FROM outbox.pending_page_by_bytes(0, 10, 100000) AS p";
    let seen = value(&session, read).await;
    assert!(seen.contains(&pending) && !seen.contains("old secret") && !seen.contains(&finished), "{seen}");
    run(&session, &format!("SELECT outbox.settle('{{{pending}}}', '{{SENT}}', '{{NULL}}')")).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE status = 'SENT'").await, "2");
    // A finished event stays as it is.
    run(&session, &format!("SELECT outbox.settle('{{{finished}}}', '{{PENDING}}', '{{nack}}', '{{0}}')")).await;
    run(&session, &format!("SELECT outbox.settle('{{{finished}}}', '{{FAILED}}', '{{nack}}')")).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE status = 'SENT'").await, "2");
}

async fn an_operator_chooses_a_name_for_the_audit_but_not_the_role_and_cannot_change_it(db: Database) {
    let operator = role(&db, "operator").await;
    run(&db, &format!("SELECT outbox.grant_operate('{operator}')")).await;
    let id = value(&db, "SELECT outbox.emit('a', '{}'::jsonb)").await;
    run(&db, "UPDATE outbox.events SET status = 'FAILED'").await;
    let session = db.connect_as(&operator).await;
    run(&session, &format!("SET outbox.operator = 'somebody else'; SELECT outbox.replay('{id}')")).await;
    assert_eq!(value(&db, "SELECT who || ' ' || role FROM outbox.audit").await, format!("somebody else {operator}"));
    for forge in ["UPDATE outbox.audit SET who = 'x'", "DELETE FROM outbox.audit", "TRUNCATE outbox.audit"] {
        assert_eq!(refusal(&session, forge).await.code().code(), "42501", "{forge}");
    }
}

/// So the password of the relay's role is worth as much as reading every table of its database.
#[tokio::test]
async fn whoever_may_replicate_reads_every_change_in_every_database_that_the_role_may_connect_to() {
    let postgres = Postgres::private().start().await;
    let db = postgres.database().await;
    run(&db, "CREATE TABLE salaries (name text, salary int); CREATE ROLE relay LOGIN REPLICATION").await;
    let session = db.connect_as("relay").await;
    assert_eq!(refusal(&session, "SELECT * FROM salaries").await.code().code(), "42501");
    run(&session, "SELECT pg_create_logical_replication_slot('stolen', 'test_decoding')").await;
    run(&db, "INSERT INTO salaries VALUES ('Ada', 4711)").await;
    let seen =
        value(&session, "SELECT string_agg(data, ' ') FROM pg_logical_slot_peek_changes('stolen', NULL, NULL)").await;
    assert!(seen.contains("Ada") && seen.contains("4711"), "{seen}");
    // It can drop every slot that nobody reads, too.
    run(&db, "SELECT pg_create_logical_replication_slot('of_others', 'pgoutput')").await;
    run(&session, "SELECT pg_drop_replication_slot('of_others'), pg_drop_replication_slot('stolen')").await;
}
