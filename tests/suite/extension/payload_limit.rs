//! How large a payload may be: `outbox.max_payload_bytes` for a session, `outbox.limit_payloads()` for all of them.

use harness::{Connection, Database};

use super::{limits::refused, on_both_installations, refusal, role, run, value};

on_both_installations!(
    the_limit_of_the_payload_is_a_setting,
    a_compressed_payload_counts_in_full,
    a_limit_that_is_no_size_is_refused,
    an_emitter_cannot_lift_the_owners_limit,
    the_owners_limit_is_16_mb_until_the_owner_sets_another,
    only_the_owner_limits_payloads_and_by_a_size_that_a_broker_takes,
);

async fn the_limit_of_the_payload_is_a_setting(db: Database) {
    run(&db, "SET outbox.max_payload_bytes = 20").await;
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 19)))", "54000", "payload is 21 bytes, the limit is 20")
        .await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 18)))").await;
    run(&db, "DELETE FROM outbox.events; SET outbox.max_payload_bytes = '2MB'").await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097150)))").await;
    run(&db, "DELETE FROM outbox.events").await;
    let too_large = "payload is 2097153 bytes, the limit is 2097152";
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097151)))", "54000", too_large).await;
    run(&db, "RESET outbox.max_payload_bytes").await;
    let default = "payload is 2097153 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097151)))", "54000", default).await;
}

async fn a_compressed_payload_counts_in_full(db: Database) {
    run(
        &db,
        "CREATE TABLE documents (j json, b bytea);
         INSERT INTO documents SELECT to_json(repeat('x', 2000000)), decode(repeat('00', 2000000), 'hex')",
    )
    .await;
    assert_eq!(
        value(&db, "SELECT pg_column_size(j) < 100000 AND pg_column_size(b) < 100000 FROM documents").await,
        "true"
    );
    let json = "payload is 2000002 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', j) FROM documents", "54000", json).await;
    refused(&db, "INSERT INTO outbox.events (topic, payload) SELECT 'a', j FROM documents", "54000", json).await;
    let bytes = "payload is 2000000 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', b) FROM documents", "54000", bytes).await;
}

async fn a_limit_that_is_no_size_is_refused(db: Database) {
    for bad in ["0", "-1", "129MB", "much"] {
        // The extension refuses the SET; without it PostgreSQL does not know the setting, and the next call refuses it.
        let error = refusal(
            &db,
            &format!(
                "SELECT outbox.uuid_v7(); SET outbox.max_payload_bytes = '{bad}'; SELECT outbox.emit('a', '{{}}')"
            ),
        )
        .await;
        assert_eq!(error.code().code(), "22023", "{bad}");
        assert!(error.message().contains("outbox.max_payload_bytes"), "{bad}: {}", error.message());
        run(&db, "RESET outbox.max_payload_bytes").await;
    }
}

async fn an_emitter_cannot_lift_the_owners_limit(db: Database) {
    let role = role(&db, "emitter").await;
    run(&db, &format!("SELECT outbox.grant_emit('{role}'); SELECT outbox.limit_payloads('2MB')")).await;
    // What each session tries first may be refused, or do nothing.
    let as_emitter = db.url_as(&role);
    for raise in [
        "SET outbox.payload_limit = '128MB'".to_owned(),
        "SELECT outbox.emit('a', '1'); SET outbox.payload_limit = '128MB'".to_owned(),
        "SELECT set_config('outbox.payload_limit', '128MB', false)".to_owned(),
        format!("ALTER ROLE {role} SET outbox.payload_limit = '128MB'"),
        "SELECT outbox.limit_payloads('128MB')".to_owned(),
        "CREATE OR REPLACE FUNCTION outbox.payload_limit() RETURNS bigint LANGUAGE sql RETURN 134217728".to_owned(),
    ] {
        let session = Connection::open(&as_emitter).await;
        let _ = session.batch_execute(&raise).await;
        the_limit_is_2_mb(&db, &session).await;
    }
    the_limit_is_2_mb(&db, &Connection::open(&as_emitter).await).await;
    // An option of the connection hides the owner's setting; the extension's default would be more than that.
    for option in ["128MB", "16MB", "0", "", "nonsense"] {
        let url = format!("{as_emitter}?options=-c%20outbox.payload_limit%3D{option}");
        let session = Connection::open(&url).await;
        run(&session, "SET outbox.max_payload_bytes = '128MB'").await;
        let error = refusal(&session, "SELECT outbox.emit('a', repeat('x', 2097153)::bytea)").await;
        assert_eq!(error.code().code(), "54000", "{option}: {error:?}");
    }
    run(&db, &format!("DROP OWNED BY {role}")).await;
}

/// For every way to emit, whatever the session says.
async fn the_limit_is_2_mb(db: &Database, session: &Connection) {
    run(session, "SET outbox.max_payload_bytes = '128MB'").await;
    run(session, "SELECT outbox.emit('a', repeat('x', 2097152)::bytea)").await;
    for emit in [
        "SELECT outbox.emit('a', repeat('x', 2097153)::bytea)",
        "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097151)))",
        "INSERT INTO outbox.events (topic, payload_bytes) VALUES ('a', repeat('x', 2097153)::bytea)",
    ] {
        let error = refusal(session, emit).await;
        assert_eq!(
            (error.code().code(), error.message()),
            ("54000", "payload is 2097153 bytes, the limit is 2097152"),
            "{emit}"
        );
        assert!(error.detail().is_some_and(|detail| detail.contains("owner")), "{error:?}");
    }
    run(db, "DELETE FROM outbox.events").await;
}

async fn the_owners_limit_is_16_mb_until_the_owner_sets_another(db: Database) {
    let emit = |bytes: i32| format!("SELECT outbox.emit('a', repeat('x', {bytes})::bytea)");
    run(&db, "SET outbox.max_payload_bytes = '128MB'").await;
    run(&db, &emit(16_777_216)).await;
    let too_large = "payload is 16777217 bytes, the limit is 16777216";
    run(&db, "DELETE FROM outbox.events").await;
    refused(&db, &emit(16_777_217), "54000", too_large).await;
    run(&db, "SELECT outbox.limit_payloads('128MB')").await;
    let other = db.connect().await;
    run(&other, "SET outbox.max_payload_bytes = '17MB'").await;
    run(&other, &emit(16_777_217)).await;
    run(&other, "SET outbox.max_payload_bytes = '16MB'").await;
    assert_eq!(refusal(&other, &emit(16_777_217)).await.message(), too_large);
}

async fn only_the_owner_limits_payloads_and_by_a_size_that_a_broker_takes(db: Database) {
    for bad in ["0", "-1", "129MB", "much", ""] {
        let error = refusal(&db, &format!("SELECT outbox.limit_payloads('{bad}')")).await;
        assert_eq!(error.code().code(), "22023", "{bad}: {error:?}");
    }
    let role = role(&db, "emitter").await;
    run(&db, &format!("SELECT outbox.grant_emit('{role}'); SELECT outbox.grant_operate('{role}'); SET ROLE {role}"))
        .await;
    assert_eq!(refusal(&db, "SELECT outbox.limit_payloads('1MB')").await.code().code(), "42501");
    run(&db, &format!("RESET ROLE; DROP OWNED BY {role}")).await;
}
