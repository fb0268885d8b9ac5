//! `pg_dump | psql` into a new database keeps every event.

use harness::{Database, Postgres};

use super::{on_both_installations, role, run, value};

on_both_installations!(
    a_restored_database_has_every_event_as_it_was,
    a_restored_database_goes_on_where_the_old_one_stood,
    a_restored_database_has_the_same_grants,
);

/// Dumps `db` and restores it into a new database.
async fn copy(db: &Database) -> Database {
    let postgres = Postgres::shared().await;
    let copy = postgres.empty_database().await;
    let dump = postgres.program("pg_dump").args(["--dbname", db.name()]).output().unwrap();
    assert!(dump.status.success(), "pg_dump: {}", String::from_utf8_lossy(&dump.stderr));
    let file = std::env::temp_dir().join(format!("{}-{}.sql", copy.name(), std::process::id()));
    std::fs::write(&file, &dump.stdout).unwrap();
    let restore = postgres
        .program("psql")
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", copy.name(), "--file"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(restore.status.success(), "psql: {}", String::from_utf8_lossy(&restore.stderr));
    copy
}

async fn a_restored_database_has_every_event_as_it_was(db: Database) {
    run(
        &db,
        "SET outbox.max_payload_bytes = '10MB'; SET outbox.correlation_id = 'c';
         SELECT outbox.emit('large', to_jsonb(repeat('x', 3000000))); -- over the limit of the session that restores
         SELECT outbox.emit('bytes', '\\x00ff'::bytea, headers => '{\"h\": [1, null]}', exchange => 'x');
         SELECT outbox.emit('soon', '{}', available_at => clock_timestamp() + interval '1 millisecond');
         SELECT outbox.emit('later', '{}', available_at => now() + interval '1 day');
         SELECT outbox.emit('sent', '{}'), outbox.emit('failed', '{}', event_type => 'T'), outbox.emit('again', '{}');
         UPDATE outbox.events SET status = 'SENT' WHERE topic = 'sent';
         UPDATE outbox.events SET status = 'FAILED', last_error = 'why' WHERE topic = 'failed';
         UPDATE outbox.events SET attempts = attempts + 1, last_error = 'nack' WHERE topic = 'again'",
    )
    .await;
    let copy = copy(&db).await;
    let rows = "SELECT jsonb_agg(e ORDER BY seq) FROM outbox.events AS e";
    assert_eq!(value(&copy, rows).await, value(&db, rows).await);
    assert_eq!(value(&copy, "SELECT count(*) FROM outbox.events").await, "7");
}

async fn a_restored_database_goes_on_where_the_old_one_stood(db: Database) {
    run(&db, "SELECT outbox.emit('a', '{}') FROM generate_series(1, 100); SELECT outbox.ensure_publication('outbox')")
        .await;
    let copy = copy(&db).await;
    run(&copy, "SELECT outbox.emit('b', '{}')").await;
    assert_eq!(value(&copy, "SELECT seq FROM outbox.events WHERE topic = 'b'").await, "101");
    run(&copy, "UPDATE outbox.events SET status = 'SENT'").await;
    super::refusal(&copy, "UPDATE outbox.events SET status = 'FAILED'").await;
    // The publication comes along; the relay's start puts right what it lacks.
    run(&copy, "SELECT outbox.ensure_publication('outbox')").await;
    assert_eq!(value(&copy, "SELECT tablename FROM pg_publication_tables WHERE pubname = 'outbox'").await, "events");
}

async fn a_restored_database_has_the_same_grants(db: Database) {
    let (app, relay) = (role(&db, "app").await, role(&db, "relay").await);
    run(&db, &format!("SELECT outbox.grant_emit('{app}'), outbox.grant_relay('{relay}')")).await;
    let copy = copy(&db).await;
    let session = copy.connect_as(&app).await;
    run(&session, "SELECT outbox.emit('a', '{}'); INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')").await;
    super::refusal(&session, "SELECT id FROM outbox.events").await;
    super::refusal(&session, "SELECT outbox.settle('{}', '{}', '{}')").await;
    run(&*copy.connect_as(&relay).await, "SELECT outbox.settle('{}', '{}', '{}')").await;
}
