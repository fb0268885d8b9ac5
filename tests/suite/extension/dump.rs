//! `pg_dump | psql` into a new database keeps every event.

use harness::{Database, Postgres};

use super::{on_both_installations, role, run, value, with_plain_sql, with_the_extension};

on_both_installations!(
    a_restored_database_has_every_event_as_it_was,
    a_restored_database_goes_on_where_the_old_one_stood,
    a_restored_database_has_the_same_grants,
);

/// Dumps `db` and restores it into a new database.
pub(super) async fn copy(db: &Database) -> Database {
    let copy = Postgres::shared().await.empty_database().await;
    restore(&dump(db, &[]).await, &copy).await;
    copy
}

/// Dumps the rows of `db` alone, without their sequence, and restores them into an outbox that was installed anew.
pub(crate) async fn copy_rows(db: &Database, copy: &Database) {
    let mut rows = dump(db, &["--data-only", "--table=outbox.events"]).await;
    // Of the table of the plain SQL, pg_dump takes the sequence along.
    let sequence = rows.find("SELECT pg_catalog.setval('outbox.events_seq_seq'");
    rows.truncate(sequence.unwrap_or(rows.len()));
    restore(&rows, copy).await;
}

/// A part of `db`, as SQL.
async fn dump(db: &Database, part: &[&str]) -> String {
    let dump = Postgres::shared().await.program("pg_dump").args(["--dbname", db.name()]).args(part).output().unwrap();
    assert!(dump.status.success(), "pg_dump: {}", String::from_utf8_lossy(&dump.stderr));
    String::from_utf8(dump.stdout).unwrap()
}

async fn restore(dump: &str, copy: &Database) {
    let file = std::env::temp_dir().join(format!("{}-{}.sql", copy.name(), std::process::id()));
    std::fs::write(&file, dump).unwrap();
    let restore = Postgres::shared()
        .await
        .program("psql")
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", copy.name(), "--file"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(restore.status.success(), "psql: {}", String::from_utf8_lossy(&restore.stderr));
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

/// What somebody may want on the table: a column, an index, a trigger, a CHECK and a policy.
const MINE: &str =
    "ALTER TABLE outbox.events ADD COLUMN region text DEFAULT 'eu', ADD CONSTRAINT mine CHECK (region <> 'us');
    CREATE INDEX mine ON outbox.events (region);
    CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.region := new.topic; RETURN new; END';
    CREATE TRIGGER mine BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION mine();
    CREATE POLICY mine ON outbox.events USING (region <> '');
    CREATE RULE mine AS ON DELETE TO outbox.events DO ALSO NOTHING";

/// An event in every status, and one more refused: the CHECK counts.
async fn emit_some(db: &Database) {
    run(
        db,
        "SELECT outbox.emit('pending', '{}'), outbox.emit('sent', '{}'), outbox.emit('failed', '{}');
         UPDATE outbox.events SET status = 'SENT' WHERE topic = 'sent';
         UPDATE outbox.events SET status = 'FAILED', last_error = 'why' WHERE topic = 'failed'",
    )
    .await;
    assert_eq!(super::refusal(db, "SELECT outbox.emit('us', '{}')").await.code().code(), "23514");
}

/// The rows and what is on the table, as text.
const ALL: &str = "SELECT concat_ws(E'\\n', (SELECT jsonb_agg(e ORDER BY seq) FROM outbox.events AS e),
    (SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'outbox.events'::regclass),
    (SELECT string_agg(pg_get_constraintdef(oid), ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'outbox.events'::regclass),
    (SELECT string_agg(pg_get_triggerdef(oid), ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = 'outbox.events'::regclass AND tgname = 'mine'),
    (SELECT string_agg(definition, ' ') FROM pg_rules WHERE tablename = 'events'),
    (SELECT string_agg(concat(policyname, qual), ' ') FROM pg_policies WHERE tablename = 'events'),
    (SELECT string_agg(indexdef, ' ' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'events'))";

#[tokio::test]
async fn what_was_added_to_the_plain_table_comes_back_with_every_event() {
    let db = with_plain_sql().await;
    run(&db, MINE).await;
    emit_some(&db).await;
    let copy = copy(&db).await;
    assert_eq!(value(&copy, ALL).await, value(&db, ALL).await);
    assert_eq!(
        value(&copy, "SELECT string_agg(region, ' ' ORDER BY seq) FROM outbox.events").await,
        "pending sent failed"
    );
    assert_eq!(super::refusal(&copy, "SELECT outbox.emit('us', '{}')").await.code().code(), "23514");
}

#[tokio::test]
async fn what_was_added_to_the_extensions_table_is_made_again_before_the_rows_are_restored() {
    let db = with_the_extension().await; // whose session is allowed to
    run(&db, MINE).await;
    emit_some(&db).await;
    // As docs/run/table.md has it.
    let postgres = Postgres::shared().await;
    let copy = postgres.empty_database().await;
    let file = std::env::temp_dir().join(format!("{}-{}.dump", copy.name(), std::process::id()));
    let program = async |name: &str, arguments: &[&str]| {
        let output = postgres.program(name).args(arguments).arg(&file).output().unwrap();
        assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    program("pg_dump", &["--format=custom", "--dbname", db.name(), "--file"]).await;
    program("pg_restore", &["--exit-on-error", "--dbname", copy.name(), "--section=pre-data"]).await;
    run(&copy, "SET outbox.allow_undumped_changes = on; DROP FUNCTION mine()").await; // a dump has the function
    run(&copy, MINE).await;
    run(&copy, "ALTER TABLE outbox.events DISABLE TRIGGER mine").await;
    program("pg_restore", &["--exit-on-error", "--dbname", copy.name(), "--section=data", "--section=post-data"]).await;
    run(&copy, "ALTER TABLE outbox.events ENABLE TRIGGER mine").await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(value(&copy, ALL).await, value(&db, ALL).await);
}
