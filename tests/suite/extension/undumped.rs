//! `pg_dump` loses what is added to a table that belongs to an extension, so adding it is refused; the plain
//! installation's table is dumped as a whole (see dump.rs).

use harness::{Database, Postgres};

use super::{refusal, run, value};

/// A session that has not said that it knows.
async fn unknowing() -> Database {
    let db = Postgres::shared().await.database().await;
    run(
        &db,
        "CREATE TABLE parent (LIKE outbox.events);
         CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
    )
    .await;
    db
}

#[tokio::test]
async fn what_a_dump_of_the_extension_would_lose_is_refused() {
    let db = unknowing().await;
    run(&db, "SELECT outbox.emit('a', '{}', exchange => 'x')").await;
    for (change, lost) in [
        ("ALTER TABLE outbox.events ADD COLUMN region text", "column region text"),
        (
            "ALTER TABLE outbox.events ADD COLUMN n serial, ADD CHECK (n > 0)",
            "column n integer not null default nextval",
        ),
        (
            "ALTER TABLE outbox.events ADD CONSTRAINT short CHECK (topic <> 'x')",
            "constraint short CHECK ((topic <> 'x'::text))",
        ),
        ("ALTER TABLE outbox.events ADD UNIQUE (correlation_id)", "constraint events_correlation_id_key UNIQUE"),
        (
            "ALTER TABLE outbox.events ADD FOREIGN KEY (id) REFERENCES outbox.events",
            "constraint events_id_fkey FOREIGN KEY",
        ),
        ("ALTER TABLE outbox.events ALTER exchange SET NOT NULL", "column exchange text not null"),
        ("ALTER TABLE outbox.events ALTER exchange SET DEFAULT 'mine'", "column exchange text default 'mine'::text"),
        ("ALTER TABLE outbox.events RENAME topic TO subject", "column subject text not null"),
        ("ALTER TABLE outbox.events RENAME TO others", "table name outbox.others"),
        ("ALTER TABLE outbox.events SET SCHEMA public", "table name public.events"),
        ("ALTER TABLE outbox.events ENABLE ROW LEVEL SECURITY", "row level security"),
        ("ALTER TABLE outbox.events INHERIT parent", "inheritance from public.parent"),
        ("CREATE INDEX mine ON outbox.events (topic)", "index outbox.mine"),
        (
            "CREATE TRIGGER mine BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION mine()",
            "trigger mine on outbox.events",
        ),
        ("CREATE RULE mine AS ON DELETE TO outbox.events DO ALSO NOTHING", "rule mine on outbox.events"),
        ("CREATE POLICY mine ON outbox.events USING (true)", "policy mine on outbox.events"),
        ("CREATE STATISTICS mine ON topic, exchange FROM outbox.events", "statistics object public.mine"),
        (
            "SET session_replication_role = replica; ALTER TABLE outbox.events ADD COLUMN region text",
            "column region text",
        ),
    ] {
        let error = refusal(&db, change).await;
        assert_eq!(error.code().code(), "0A000", "{change}");
        let message = error.message();
        assert!(
            message.starts_with(&format!("outbox.events belongs to an extension: pg_dump would lose {lost}")),
            "{message}"
        );
        assert!(error.hint().unwrap().contains("sql/outbox.sql"), "{change}");
        run(&db, "RESET session_replication_role").await;
    }
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE topic = 'a'").await, "1");
    // It fails at its very end, so PostgreSQL leaves an invalid index behind, which the hint says.
    let error = refusal(&db, "CREATE INDEX CONCURRENTLY mine ON outbox.events (topic)").await;
    assert!(error.hint().unwrap().ends_with("An index that was made CONCURRENTLY has to be dropped."), "{error:?}");
    run(&db, "DROP INDEX outbox.mine").await;
}

#[tokio::test]
async fn who_says_that_they_know_may_add_to_the_extensions_table() {
    let db = unknowing().await;
    for on in ["on", "TRUE", "yes", "1"] {
        run(
            &db,
            &format!(
                "SET outbox.allow_undumped_changes = {on};
                 ALTER TABLE outbox.events ADD COLUMN region text; CREATE INDEX mine ON outbox.events (region);
                 SELECT outbox.emit('a', '{{}}');
                 ALTER TABLE outbox.events DROP COLUMN region"
            ),
        )
        .await;
    }
    run(&db, "SET outbox.allow_undumped_changes = off").await;
    refusal(&db, "CREATE INDEX mine ON outbox.events (topic)").await;
}

#[tokio::test]
async fn what_a_dump_keeps_or_what_tunes_the_table_is_let_pass() {
    let db = unknowing().await;
    for change in [
        "ALTER TABLE outbox.events SET (fillfactor = 90, autovacuum_enabled = off)",
        "ALTER TABLE outbox.events ALTER payload SET STORAGE EXTERNAL, ALTER topic SET STATISTICS 1000",
        "ALTER TABLE outbox.events REPLICA IDENTITY FULL",
        "ALTER TABLE outbox.events DISABLE TRIGGER ALL",
        "ALTER TABLE outbox.events ENABLE TRIGGER ALL",
        "ALTER TABLE outbox.events CLUSTER ON events_pkey",
        "CLUSTER outbox.events",
        "REINDEX TABLE outbox.events",
        "REINDEX TABLE CONCURRENTLY outbox.events",
        "VACUUM FULL outbox.events",
        "ALTER TABLE outbox.events SET UNLOGGED",
        "ALTER TABLE outbox.events SET LOGGED",
        "DROP INDEX outbox.events_failed",
        "CREATE TABLE reference (event uuid REFERENCES outbox.events)",
        "CREATE TABLE archive () INHERITS (outbox.events)",
        "CREATE TABLE other (LIKE outbox.events INCLUDING ALL); CREATE INDEX ON other (topic)",
        "CREATE VIEW mine AS SELECT topic FROM outbox.events",
        "CREATE PUBLICATION mine FOR TABLE outbox.events",
        "CREATE ROLE undumped_owner; ALTER TABLE outbox.events OWNER TO undumped_owner",
        "ALTER TABLE outbox.events OWNER TO postgres; DROP ROLE undumped_owner",
        "DROP TABLE archive; DROP EXTENSION outbox CASCADE; CREATE EXTENSION outbox",
        "ALTER TABLE parent ADD COLUMN region text; CREATE INDEX ON parent (region)",
    ] {
        run(&db, change).await;
    }
}

#[tokio::test]
async fn a_table_of_another_role_is_altered_as_if_there_were_no_extension() {
    let db = unknowing().await;
    let role = super::role(&db, "dev").await;
    run(&db, &format!("GRANT CREATE ON DATABASE {} TO {role}", db.name())).await;
    let session = db.connect_as(&role).await;
    run(
        &session,
        "CREATE SCHEMA dev; CREATE TABLE dev.t (a int, b int); ALTER TABLE dev.t ADD COLUMN c text; CREATE INDEX ON dev.t (c);
         CREATE STATISTICS dev.s ON a, b FROM dev.t; CREATE RULE r AS ON DELETE TO dev.t DO ALSO NOTHING;
         CREATE POLICY p ON dev.t USING (true); CREATE TEMP TABLE t (a int PRIMARY KEY); ALTER TABLE t ADD COLUMN b int",
    )
    .await;
}
