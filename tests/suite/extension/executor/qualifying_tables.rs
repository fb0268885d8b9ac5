//! A table with anything on it that only a statement treats correctly is written by statements.

use super::{left, with_direct_writes};
use crate::extension::{run, value};

#[tokio::test]
async fn only_a_table_with_something_of_the_users_on_it_needs_a_statement() {
    let Some(db) = with_direct_writes().await else { return };
    run(&db, "SET outbox.direct_writes = on").await;
    assert_eq!(left(&db).await, "0");
    run(&db, "CREATE INDEX mine ON outbox.events (processed_at)").await;
    assert_eq!(left(&db).await, "0");
    let definition = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'status_moves'";
    let ours = value(&db, definition).await.replacen("CREATE", "CREATE OR REPLACE", 1);
    let in_other_parentheses = ours.replacen("((((", "(((", 1).replacen("CASE", "(CASE", 1);
    assert_ne!(ours, in_other_parentheses);
    let before_15 = value(&db, "SELECT current_setting('server_version_num')::int < 150000").await == "true";
    for (mine, away) in [
        ("CREATE RULE mine AS ON UPDATE TO outbox.events DO ALSO NOTHING", "DROP RULE mine ON outbox.events"),
        ("ALTER TABLE outbox.events ADD CONSTRAINT mine CHECK (seq > 0)", "ALTER TABLE outbox.events DROP CONSTRAINT mine"),
        ("CREATE INDEX mine2 ON outbox.events USING hash (topic)", "DROP INDEX outbox.mine2"),
        ("CREATE INDEX mine2 ON outbox.events (length(topic))", "DROP INDEX outbox.mine2"),
        ("SET outbox.notify_status = on", "RESET outbox.notify_status"),
        ("ALTER TABLE outbox.events ENABLE ROW LEVEL SECURITY", "ALTER TABLE outbox.events DISABLE ROW LEVEL SECURITY"),
        (
            "CREATE INDEX mine2 ON outbox.events (seq) WHERE topic LIKE 'a%' OR seq + 1 > 2 AND coalesce(topic, 'x') = 'x'",
            "DROP INDEX outbox.mine2",
        ),
        ("CREATE TABLE mine () INHERITS (outbox.events)", "DROP TABLE mine; ANALYZE outbox.events"),
        ("SET outbox.direct_writes = off", "SET outbox.direct_writes = on"),
        (
            "CREATE ACCESS METHOD mine TYPE TABLE HANDLER heap_tableam_handler; ALTER TABLE outbox.events SET ACCESS METHOD mine",
            "ALTER TABLE outbox.events SET ACCESS METHOD heap; DROP ACCESS METHOD mine",
        ),
        // As ours, but for parentheses.
        (&in_other_parentheses, &ours),
        (
            "CREATE TABLE mine (event uuid REFERENCES outbox.events); CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RETURN NULL; END'; CREATE TRIGGER mine AFTER UPDATE ON outbox.events EXECUTE FUNCTION mine()",
            "DROP TABLE mine; DROP FUNCTION mine() CASCADE",
        ),
    ] {
        if mine.contains("SET ACCESS METHOD") && before_15 {
            continue;
        }
        run(&db, mine).await;
        assert_eq!(left(&db).await, "1", "{mine}");
        run(&db, away).await;
        assert_eq!(left(&db).await, "0", "{away}");
    }
}
