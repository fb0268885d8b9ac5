//! What logical replication brings, or a session with `session_replication_role = replica`, is kept as it was: it was
//! checked where it comes from. But no row gets in that would stop those who read the table.

use harness::{Database, Postgres, SOON, eventually};

use super::{AUDIT, on_both_installations, refusal, run, value, with_plain_sql, with_the_extension};

on_both_installations!(
    a_row_that_nobody_could_read_is_refused,
    what_comes_is_kept_as_it_was,
    an_envelope_is_final,
    a_verdict_keeps_its_stamps,
    what_nobody_could_settle_is_refused,
    emit_respects_which_triggers_are_switched_on,
);

const REPLICA: &str = "SET session_replication_role = replica";

async fn a_row_that_nobody_could_read_is_refused(db: Database) {
    run(&db, REPLICA).await;
    for (columns, values, sqlstate) in [
        ("topic, payload", "repeat('x', 256), '1'", "22001"),
        ("topic, payload", "'', '1'", "22023"),
        ("topic", "'t'", "22004"),
        ("topic, payload, payload_bytes", "'t', '1', '\\x00'", "22023"),
        ("topic, payload, headers", "'t', '1', '[]'", "22023"),
        ("topic, payload, headers", "'t', '1', jsonb_build_object('a', repeat('x', 65536))", "54000"),
        ("topic, payload, available_at", "'t', '1', 'infinity'", "22023"),
    ] {
        let error = refusal(&db, &format!("INSERT INTO outbox.events ({columns}) VALUES ({values})")).await;
        assert_eq!(error.code().code(), sqlstate, "{values}: {error:?}");
    }
}

async fn what_comes_is_kept_as_it_was(db: Database) {
    run(&db, REPLICA).await;
    run(
        &db,
        "SET outbox.correlation_id = 'mine'; SET outbox.traceparent = 'mine'; SET outbox.max_payload_bytes = 1;
         INSERT INTO outbox.events (topic, payload, available_at) VALUES ('t', '\"long\"', '2000-01-01Z')",
    )
    .await;
    let row = "SELECT concat_ws(' ', payload, correlation_id IS NULL, headers IS NULL, extract(year FROM available_at AT TIME ZONE 'UTC'))
               FROM outbox.events";
    assert_eq!(value(&db, row).await, "\"long\" t t 2000");
}

async fn an_envelope_is_final(db: Database) {
    run(&db, "SELECT outbox.emit('t', '1')").await;
    run(&db, REPLICA).await;
    let error = refusal(&db, "UPDATE outbox.events SET topic = repeat('x', 300)").await;
    assert_eq!((error.code().code(), error.column()), ("23514", Some("topic")));
    run(&db, "UPDATE outbox.events SET topic = topic, payload = payload, status = status").await;
}

async fn a_verdict_keeps_its_stamps(db: Database) {
    run(&db, "SELECT outbox.emit('t', '1')").await;
    run(&db, REPLICA).await;
    // The second is what relays on both sides may bring about: it must not stop replication.
    for (status, attempts) in [("SENT", 3), ("SENT", 2), ("PENDING", 0), ("FAILED", 7)] {
        let verdict = format!(
            "UPDATE outbox.events SET status = '{status}', attempts = {attempts}, last_error = 'theirs',
                 last_attempted_at = '2001-01-01Z', processed_at = '2002-01-01Z'"
        );
        run(&db, &verdict).await;
        let row = "SELECT concat_ws(' ', status, attempts, last_error, extract(year FROM last_attempted_at AT TIME ZONE 'UTC'),
                       extract(year FROM processed_at AT TIME ZONE 'UTC')) FROM outbox.events";
        assert_eq!(value(&db, row).await, format!("{status} {attempts} theirs 2001 2002"));
    }
}

async fn what_nobody_could_settle_is_refused(db: Database) {
    run(&db, "SELECT outbox.emit('t', '1')").await;
    run(&db, REPLICA).await;
    for (column, set) in [
        ("attempts", "attempts = 2147483647"),
        ("attempts", "attempts = -1"),
        ("available_at", "available_at = 'infinity'"),
        ("holds_key", "status = 'SENT', holds_key = true"),
    ] {
        let error = refusal(&db, &format!("UPDATE outbox.events SET {set}")).await;
        assert_eq!((error.code().code(), error.column()), ("23514", Some(column)), "{error:?}");
    }
}

async fn emit_respects_which_triggers_are_switched_on(db: Database) {
    run(&db, AUDIT).await;
    let audited = async |role: &str| {
        run(&db, &format!("SET session_replication_role = {role}; SELECT outbox.emit('t', '1')")).await;
        run(&db, "SET session_replication_role = origin").await;
        let count = value(&db, "SELECT count(*) FROM audit").await;
        run(&db, "DELETE FROM audit").await;
        count
    };
    for (switch, in_origin, in_replica) in
        [("ENABLE", "1", "0"), ("ENABLE REPLICA", "0", "1"), ("ENABLE ALWAYS", "1", "1"), ("DISABLE", "0", "0")]
    {
        run(&db, &format!("ALTER TABLE outbox.events {switch} TRIGGER audit")).await;
        let audited = (audited("origin").await, audited("replica").await);
        assert_eq!(audited, (in_origin.to_owned(), in_replica.to_owned()), "{switch}");
    }
    run(&db, "DROP TRIGGER audit ON outbox.events").await;
    for role in ["origin", "replica"] {
        run(&db, &format!("SET session_replication_role = {role}; SELECT outbox.emit('t', '1')")).await;
        assert_eq!(refusal(&db, "SELECT outbox.emit('', '1')").await.code().code(), "22023", "{role}");
    }
    // Whoever owns the table may switch the checks off.
    run(&db, "RESET session_replication_role; ALTER TABLE outbox.events DISABLE TRIGGER admit").await;
    run(&db, "SELECT outbox.emit('', '1')").await;
    run(&db, "ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER admit").await;
    assert_eq!(refusal(&db, "SELECT outbox.emit('', '1')").await.code().code(), "22023");
}

#[tokio::test]
async fn a_subscriber_has_what_the_publisher_has_and_refuses_a_row_that_nobody_could_read() {
    is_guarded(with_the_extension().await, with_the_extension().await, 333).await;
}

#[tokio::test]
async fn a_subscriber_without_the_extension_does_so_too() {
    is_guarded(with_the_extension().await, with_plain_sql().await, 334).await;
}

/// The subscriber's refusal is recognised by the length of the topic.
async fn is_guarded(publisher: Database, subscriber: Database, length: usize) {
    let (slot, port, name) = (subscriber.name(), publisher.port(), publisher.name());
    run(&publisher, "CREATE PUBLICATION p FOR TABLE outbox.events").await;
    run(&publisher, &format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")).await;
    // Made here, for a server that would make it for a subscriber of its own waits for itself.
    let subscribe = format!(
        "CREATE SUBSCRIPTION {slot} CONNECTION 'host=127.0.0.1 port={port} dbname={name} user=postgres' PUBLICATION p
             WITH (create_slot = false, copy_data = false)"
    );
    run(&subscriber, &subscribe).await;

    let emit = "SELECT outbox.emit('t', to_jsonb(n), headers => '{\"h\": 1}') FROM generate_series(1, 20) AS n";
    run(&publisher, emit).await;
    run(&publisher, super::settle::SETTLE_ALL).await;
    run(&publisher, "UPDATE outbox.events SET status = 'PENDING' WHERE payload::text < '5'").await;
    let rows = "SELECT count(*) || md5(string_agg(e::text, ' ' ORDER BY id)) FROM outbox.events AS e";
    let published = value(&publisher, rows).await;
    eventually("the subscriber has the same rows", SOON, async || match super::text(&subscriber, rows).await {
        same if same.as_ref() == Some(&published) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    let poisoned = format!(
        "ALTER TABLE outbox.events DISABLE TRIGGER USER;
         INSERT INTO outbox.events (topic, payload) VALUES (repeat('x', {length}), '1')"
    );
    run(&publisher, &poisoned).await;
    let postgres = Postgres::shared().await;
    eventually("the subscriber refuses", SOON, async || {
        let refusal = format!("topic is {length} bytes long, the limit is 255");
        if postgres.log().contains(&refusal) { Ok(()) } else { Err("no word of it in the server's log") }
    })
    .await;
    assert_eq!(value(&subscriber, rows).await, published);
    run(&subscriber, &format!("ALTER SUBSCRIPTION {slot} DISABLE")).await;
    run(&subscriber, &format!("ALTER SUBSCRIPTION {slot} SET (slot_name = NONE)")).await;
    run(&subscriber, &format!("DROP SUBSCRIPTION {slot}")).await;
}
