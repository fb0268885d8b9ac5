//! `outbox.ensure_publication`: inserts of one table, made or repaired.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    it_is_made_once,
    it_is_repaired_when_it_has_lost_the_table,
    it_is_repaired_when_it_does_not_publish_inserts,
    it_is_repaired_when_it_publishes_only_a_part,
    one_of_all_tables_will_do,
    one_that_is_somebody_elses_is_left_alone,
    its_name_may_be_any,
);

async fn ensure(db: &Database) -> String {
    value(db, "SELECT outbox.ensure_publication('outbox')").await
}

const PUBLISHED: &str =
    "SELECT concat_ws(' ', t.schemaname, t.tablename, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate)
    FROM pg_publication AS p JOIN pg_publication_tables AS t USING (pubname) WHERE pubname = 'outbox'";

async fn it_is_made_once(db: Database) {
    assert_eq!(ensure(&db).await, "created");
    assert_eq!(value(&db, PUBLISHED).await, "outbox events t f f f");
    assert_eq!(ensure(&db).await, "exists");
}

async fn it_is_repaired_when_it_has_lost_the_table(db: Database) {
    ensure(&db).await;
    run(&db, "ALTER PUBLICATION outbox DROP TABLE outbox.events").await;
    assert_eq!(ensure(&db).await, "repaired");
    assert_eq!(value(&db, PUBLISHED).await, "outbox events t f f f");
    assert_eq!(ensure(&db).await, "exists");
}

async fn it_is_repaired_when_it_does_not_publish_inserts(db: Database) {
    ensure(&db).await;
    run(&db, "ALTER PUBLICATION outbox SET (publish = 'delete')").await;
    assert_eq!(ensure(&db).await, "repaired");
    assert_eq!(value(&db, PUBLISHED).await, "outbox events t f f f");
}

async fn it_is_repaired_when_it_publishes_only_a_part(db: Database) {
    if value(&db, "SELECT current_setting('server_version_num')::int >= 150000").await == "false" {
        return; // there are no such parts before PostgreSQL 15
    }
    ensure(&db).await;
    run(&db, "CREATE TABLE theirs (id int)").await;
    for part in ["(id, topic)", "WHERE (topic = 'x')"] {
        run(&db, &format!("ALTER PUBLICATION outbox SET TABLE outbox.events {part}, theirs")).await;
        assert_eq!(ensure(&db).await, "repaired", "{part}");
        let whole = "SELECT count(*) FROM pg_publication_rel WHERE prattrs IS NULL AND prqual IS NULL";
        assert_eq!(value(&db, whole).await, "2", "{part}");
        assert_eq!(ensure(&db).await, "exists");
    }
}

async fn one_of_all_tables_will_do(db: Database) {
    run(&db, "CREATE PUBLICATION outbox FOR ALL TABLES").await;
    assert_eq!(ensure(&db).await, "exists");
}

async fn one_that_is_somebody_elses_is_left_alone(db: Database) {
    run(&db, "CREATE TABLE theirs (id int)").await;
    let has_parts = value(&db, "SELECT current_setting('server_version_num')::int >= 150000").await == "true";
    let parts: &[&str] = if has_parts {
        &["FOR TABLE outbox.events (id, topic)", "FOR TABLE outbox.events WHERE (topic = 'x')"]
    } else {
        &[]
    };
    let others =
        ["", "FOR TABLE theirs", "FOR TABLE outbox.events WITH (publish = 'delete')", "WITH (publish = 'update')"];
    for what in others.iter().chain(parts) {
        run(&db, &format!("CREATE PUBLICATION outbox {what}")).await;
        let all = "SELECT concat_ws(' ', p, r) FROM pg_publication AS p LEFT JOIN pg_publication_rel AS r ON r.prpubid = p.oid";
        let before = value(&db, all).await;
        let error = refusal(&db, "SELECT outbox.ensure_publication('outbox')").await;
        assert_eq!(
            (error.code().code(), error.message()),
            ("42710", "publication outbox belongs to something else"),
            "{what}"
        );
        assert_eq!(value(&db, all).await, before, "{what}");
        run(&db, "ALTER PUBLICATION outbox SET TABLE outbox.events; ALTER PUBLICATION outbox SET (publish = 'insert')")
            .await;
        assert_eq!(ensure(&db).await, "exists", "{what}");
        run(&db, "DROP PUBLICATION outbox").await;
    }
}

async fn its_name_may_be_any(db: Database) {
    let name = r#"Aus"gang; DROP TABLE outbox.events"#;
    let made = db.query_one("SELECT outbox.ensure_publication($1)", &[&name]).await.unwrap();
    assert_eq!(made.get::<_, &str>(0), "created");
    assert_eq!(value(&db, "SELECT pubname FROM pg_publication").await, name);
}
