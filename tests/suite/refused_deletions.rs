//! Deletions that are refused: the event stays alone and is named, whoever deletes. One set of refusals for the four
//! ways to delete.

use harness::{Connection, Postgres, SOON, Stack, eventually};
use uuid::Uuid;

use crate::command::{Asked, ask};

/// Who deletes finished events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deleter {
    /// The retention of the relay at work.
    Relay,
    /// `CALL outbox.maintain()`.
    Maintain,
    /// `outbox-relay purge --older-than`.
    PurgeByAge,
    /// `outbox-relay purge ID…`.
    PurgeByIds,
}

use Deleter::{Maintain, PurgeByAge, PurgeByIds, Relay};

const ALL: [Deleter; 4] = [Relay, Maintain, PurgeByAge, PurgeByIds];

/// Events of one history. Each fills a twelfth of a page, so that all of them are in one step.
const EVENTS: i64 = 300;

/// The event whose deletion is refused, in the midst of the others.
const REFUSED: i64 = 150;

/// `SENT` a day ago, all of them. Returns the id of the one that is to be refused.
async fn history(db: &Connection) -> Uuid {
    let sql = format!(
        "DELETE FROM outbox.events;
         SELECT outbox.emit('t', to_jsonb(n), aggregate_id => CASE n WHEN {REFUSED} THEN 'k' END) FROM generate_series(1, {EVENTS}) AS n;
         SET session_replication_role = replica;
         UPDATE outbox.events SET status = 'SENT', attempts = 1, processed_at = now() - interval '1 day';
         RESET session_replication_role"
    );
    db.batch_execute(&sql).await.unwrap();
    let id = format!("SELECT id FROM outbox.events WHERE payload::text = '{REFUSED}'");
    db.query_one(&id, &[]).await.unwrap().get(0)
}

async fn left(db: &Connection) -> String {
    let left = "SELECT coalesce(string_agg(payload::text, ' ' ORDER BY seq), 'nothing') FROM outbox.events";
    db.query_one(left, &[]).await.unwrap().get(0)
}

/// Has the events deleted that are older than a second, and waits until `expected` are left. Returns what was said.
async fn delete(stack: &Stack, deleter: Deleter, expected: &str, words: &str) -> String {
    let said = match deleter {
        Relay => {
            let relay = stack.relay().set("retention", "1s").set("retention-failed", "1s").start().await;
            let line = relay.wait_for_log(words).await;
            eventually("only what is refused is left", SOON, async || match left(&stack.db).await {
                left if left == expected => Ok(()),
                left => Err(left),
            })
            .await;
            relay.stop().await;
            line
        }
        Maintain => {
            let mut psql = Postgres::shared().await.program("psql");
            psql.args(["--no-psqlrc", "--dbname", stack.db.name(), "--command"])
                .arg("CALL outbox.maintain('1s', '1s')");
            let output = psql.output().unwrap();
            format!("{}\n{}", output.status, String::from_utf8(output.stderr).unwrap())
        }
        PurgeByAge => said(ask(stack, &["purge", "--older-than", "1s", "--status", "both", "--yes"]).await),
        PurgeByIds => {
            let ids = stack.db.query("SELECT id::text FROM outbox.events", &[]).await.unwrap();
            let ids: Vec<String> = ids.iter().map(|row| row.get(0)).collect();
            let arguments: Vec<&str> = ["purge", "--yes"].into_iter().chain(ids.iter().map(String::as_str)).collect();
            said(ask(stack, &arguments).await)
        }
    };
    assert_eq!(left(&stack.db).await, expected, "{deleter:?}: {said}");
    assert!(said.contains(words), "{deleter:?}: {said}");
    said
}

fn said(asked: Asked) -> String {
    format!("{:?}: {}{}", asked.code, asked.out, asked.err)
}

/// Whoever deletes: only the refused event stays, its id is named, and the reason.
async fn it_stays_alone_and_is_named(obstacle: &str, reason: &str, away: &str) {
    let stack = Stack::new().await;
    for deleter in ALL {
        let id = history(&stack.db).await;
        stack.db.batch_execute("SET outbox.allow_undumped_changes = on").await.unwrap();
        stack.db.batch_execute(&obstacle.replace("{id}", &id.to_string())).await.unwrap();
        let said = delete(&stack, deleter, &REFUSED.to_string(), "cannot be deleted").await;
        assert!(said.contains(&id.to_string()) && said.contains(reason), "{deleter:?}: {said}");
        if matches!(deleter, PurgeByAge | PurgeByIds) {
            assert!(said.starts_with("Some(1)") && said.contains("Deleted 299 events"), "{deleter:?}: {said}");
        }
        stack.db.batch_execute(away).await.unwrap();
    }
}

#[tokio::test]
async fn an_event_that_a_foreign_key_keeps_stays_alone_and_is_named_whoever_deletes() {
    it_stays_alone_and_is_named(
        "CREATE TABLE mine (event uuid REFERENCES outbox.events); INSERT INTO mine VALUES ('{id}')",
        "violates foreign key constraint",
        "DROP TABLE mine",
    )
    .await;
}

#[tokio::test]
async fn an_event_that_a_deferred_foreign_key_keeps_stays_alone_and_is_named_whoever_deletes() {
    it_stays_alone_and_is_named(
        "CREATE TABLE mine (event uuid REFERENCES outbox.events DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO mine VALUES ('{id}')",
        "violates foreign key constraint",
        "DROP TABLE mine",
    )
    .await;
}

const TRIGGER: &str = "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF old.id = '{id}' THEN {refuse}; END IF; RETURN old; END $$;
     CREATE TRIGGER keep BEFORE DELETE ON outbox.events FOR EACH ROW EXECUTE FUNCTION keep()";

const NO_TRIGGER: &str = "DROP TRIGGER keep ON outbox.events; DROP FUNCTION keep()";

#[tokio::test]
async fn an_event_that_a_trigger_refuses_to_delete_stays_alone_and_is_named_whoever_deletes() {
    let refuse = TRIGGER.replace("{refuse}", "RAISE 'this one stays'");
    it_stays_alone_and_is_named(&refuse, "this one stays", NO_TRIGGER).await;
}

/// Which `EXCEPTION WHEN OTHERS` does not catch.
#[tokio::test]
async fn an_event_that_a_trigger_keeps_by_an_assertion_stays_alone_and_is_named_whoever_deletes() {
    let refuse = TRIGGER.replace("{refuse}", "ASSERT false, 'this one stays'");
    it_stays_alone_and_is_named(&refuse, "this one stays", NO_TRIGGER).await;
}

#[tokio::test]
async fn an_event_that_a_trigger_passes_over_stays_alone_and_is_named_whoever_deletes() {
    let refuse = TRIGGER.replace("{refuse}", "RETURN NULL");
    it_stays_alone_and_is_named(&refuse, "a trigger on outbox.events returned null", NO_TRIGGER).await;
}

#[tokio::test]
async fn an_event_that_holds_its_key_stays_and_is_told_of_whoever_deletes() {
    let stack = Stack::new().await;
    for deleter in ALL {
        let id = history(&stack.db).await;
        let hold = format!(
            "SET session_replication_role = replica;
             UPDATE outbox.events SET status = 'FAILED', holds_key = true WHERE id = '{id}';
             RESET session_replication_role;
             SELECT outbox.emit('t', '301', aggregate_id => 'k')"
        );
        stack.db.batch_execute(&hold).await.unwrap();
        let words = match deleter {
            Relay => "old events are kept: later ones wait for them",
            Maintain => "1 old events hold their keys and are kept",
            PurgeByAge | PurgeByIds => "holds its key",
        };
        let said = delete(&stack, deleter, "150 301", words).await;
        if matches!(deleter, PurgeByAge | PurgeByIds) {
            assert!(said.contains("outbox-relay release"), "{said}");
        }
    }
}

#[tokio::test]
async fn an_event_that_someone_else_has_locked_stays_until_the_next_time_whoever_deletes() {
    let stack = Stack::new().await;
    for deleter in [Maintain, PurgeByAge, PurgeByIds] {
        let id = history(&stack.db).await;
        let other = stack.db.connect().await;
        other.batch_execute(&format!("BEGIN; SELECT FROM outbox.events WHERE id = '{id}' FOR UPDATE")).await.unwrap();
        delete(&stack, deleter, &REFUSED.to_string(), "locked by others").await;
        other.batch_execute("ROLLBACK").await.unwrap();
        ask(&stack, &["purge", "--older-than", "1s", "--yes"]).await.ended_with(0);
        assert_eq!(left(&stack.db).await, "nothing");
    }
}

/// As where a page is damaged.
#[tokio::test]
async fn pages_that_cannot_be_read_keep_no_others_whoever_deletes() {
    let stack = Stack::new().await;
    let break_it = "ALTER FUNCTION outbox.delete_pages RENAME TO delete_pages_of_any;
         CREATE FUNCTION outbox.delete_pages(sent_before timestamptz, failed_before timestamptz, from_page bigint, pages integer,
             OUT deleted bigint, OUT holding bigint, OUT locked bigint, OUT refused bigint, OUT refused_id uuid,
             OUT refused_because text, OUT oldest_sent timestamptz, OUT oldest_failed timestamptz, OUT table_pages bigint)
         LANGUAGE plpgsql AS $$
         DECLARE
             d record;
         BEGIN
             IF from_page = 0 THEN
                 RAISE 'invalid page in block 0' USING ERRCODE = 'data_corrupted';
             END IF;
             SELECT * INTO d FROM outbox.delete_pages_of_any(sent_before, failed_before, from_page, pages);
             deleted := d.deleted; holding := d.holding; locked := d.locked; refused := d.refused; table_pages := d.table_pages;
         END $$";
    stack.db.batch_execute(break_it).await.unwrap();
    for deleter in [Relay, Maintain, PurgeByAge] {
        history(&stack.db).await;
        let more = "SELECT outbox.emit('t', to_jsonb(repeat('x', 900))) FROM generate_series(1, 2500);
                    SET session_replication_role = replica;
                    UPDATE outbox.events SET status = 'SENT', processed_at = now() - interval '1 day';
                    DELETE FROM outbox.events WHERE ctid > '(255,0)' AND ctid <= '(256,0)';
                    RESET session_replication_role";
        stack.db.batch_execute(more).await.unwrap();
        let first_step = "SELECT count(*) FROM outbox.events WHERE ctid < '(256,0)'";
        let before: i64 = stack.db.query_one(first_step, &[]).await.unwrap().get(0);
        let expected = "SELECT coalesce(string_agg(payload::text, ' ' ORDER BY seq), 'nothing') FROM outbox.events WHERE ctid < '(256,0)'";
        let expected: String = stack.db.query_one(expected, &[]).await.unwrap().get(0);
        assert!(before > 100, "{before}");
        let said = delete(&stack, deleter, &expected, "invalid page in block 0").await;
        if deleter == PurgeByAge {
            assert!(said.starts_with("Some(10)"), "{said}");
        }
        stack.db.batch_execute("TRUNCATE outbox.events CASCADE").await.unwrap();
    }
}
