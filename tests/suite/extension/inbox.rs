//! The inbox of a consumer's database: sql/inbox.sql.

use std::{path::Path, process::Output};

use harness::{Database, Postgres, places::checkout};

use super::{dump::copy, refusal, role, run, upgrade::earlier, value, with_plain_sql, with_the_extension};

pub(super) const MESSAGE: &str = "01a1fd4c-25b9-7c6a-a420-31b130406efa";

/// A database that has an inbox and no outbox.
pub(super) async fn with_inbox() -> Database {
    let db = Postgres::shared().await.empty_database().await;
    installed(&db, "postgres").await;
    db
}

/// Lets that much time pass for the inbox: what it has is older then.
async fn pass(db: &Database, time: &str) {
    run(db, &format!("UPDATE inbox.received SET received_at = received_at - interval '{time}'")).await;
}

pub(super) fn receive(message: &str) -> String {
    format!("SELECT inbox.receive('billing', '{message}')")
}

async fn install(db: &Database, role: &str) -> Output {
    install_from(db, role, &checkout().join("sql/inbox.sql")).await
}

async fn install_from(db: &Database, role: &str, script: &Path) -> Output {
    let mut psql = Postgres::shared().await.program("psql");
    psql.env("PGCLIENTENCODING", "UTF8"); // as in most terminals, whatever the database's is
    psql.args(["--quiet", "--no-psqlrc", "--username", role, "--dbname", db.name(), "--file"]);
    psql.arg(script).output().unwrap()
}

pub(super) async fn installed(db: &Database, role: &str) {
    let output = install(db, role).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "psql: {said}");
}

#[tokio::test]
async fn an_inbox_stands_beside_either_installation_of_the_outbox() {
    for db in [with_the_extension().await, with_plain_sql().await] {
        installed(&db, "postgres").await;
        let both = format!(
            "BEGIN; {receive}; SELECT outbox.emit('orders.billed', '{{}}'); COMMIT",
            receive = receive(MESSAGE)
        );
        run(&db, &both).await;
        run(&db, "CALL inbox.forget('7 days')").await;
        let copy = copy(&db).await;
        assert_eq!(value(&copy, &receive(MESSAGE)).await, "false");
        assert_eq!(value(&copy, "SELECT count(*) FROM outbox.events").await, "1");
        // An outbox that is dropped leaves the inbox, and one that is installed afterwards does not mind it.
        run(&db, "DROP EXTENSION IF EXISTS outbox; DROP SCHEMA IF EXISTS outbox CASCADE; CREATE EXTENSION outbox")
            .await;
        assert_eq!(value(&db, &receive(MESSAGE)).await, "false");
    }
}

#[tokio::test]
async fn an_inbox_works_in_a_database_of_any_encoding() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let db = Postgres::shared().await.empty_database_in(encoding).await;
        installed(&db, "postgres").await;
        let receive = format!("SELECT inbox.receive('Bäckerei', '{MESSAGE}')");
        assert_eq!(value(&db, &receive).await, "true", "{encoding}");
        assert_eq!(value(&db, &receive).await, "false", "{encoding}");
        run(&db, "CALL inbox.forget('1 day')").await;
        assert_eq!(value(&db, "SELECT consumer FROM inbox.received").await, "Bäckerei", "{encoding}");
    }
}

#[tokio::test]
async fn a_role_that_may_create_in_the_database_can_install_and_run_an_inbox() {
    let db = with_the_extension().await;
    let owner = role(&db, "owner").await;
    run(&db, &format!("GRANT CREATE ON DATABASE {} TO {owner}", db.name())).await;
    installed(&db, &owner).await;
    let session = db.connect_as(&owner).await;
    assert_eq!(value(&session, &receive(MESSAGE)).await, "true");
    pass(&db, "8 days").await;
    run(&session, "CALL inbox.forget('7 days')").await;
    assert_eq!(value(&session, &receive(MESSAGE)).await, "true");
}

/// What an inbox consists of, and who may do what with it.
const OBJECTS: &str = "SELECT string_agg(o.what, E'\n' ORDER BY o.what) FROM (
        SELECT concat_ws(' ', pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'), p.proacl::text) FROM pg_proc AS p
        WHERE p.pronamespace = 'inbox'::regnamespace
        UNION ALL SELECT concat_ws(' ', c.relname, c.reloptions::text, CASE c.relkind WHEN 'r' THEN coalesce(c.relacl, acldefault('r', c.relowner)) END, obj_description(c.oid, 'pg_class')) FROM pg_class AS c
        WHERE c.relnamespace = 'inbox'::regnamespace
        UNION ALL SELECT concat_ws(' ', n.nspacl::text, obj_description(n.oid, 'pg_namespace')) FROM pg_namespace AS n
        WHERE n.nspname = 'inbox'
    ) AS o (what)";

#[tokio::test]
async fn an_inbox_of_an_earlier_version_becomes_this_ones_and_keeps_its_messages_and_grants() {
    let Some(earlier) = earlier("0.2.0") else { return };
    let (db, fresh) =
        (Postgres::shared().await.empty_database().await, Postgres::shared().await.empty_database().await);
    let (owner, consumer) = (role(&db, "owner").await, role(&db, "consumer").await);
    for db in [&db, &fresh] {
        run(db, &format!("GRANT CREATE ON DATABASE \"{}\" TO {owner}", db.name())).await;
    }
    assert!(install_from(&db, &owner, &earlier.join("sql/inbox.sql")).await.status.success());
    let session = db.connect_as(&owner).await;
    let grant = format!("SELECT inbox.grant_receive('{consumer}')");
    run(&session, &format!("{grant}; {}", receive(MESSAGE))).await;
    run(&session, "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO pg_monitor").await;

    for _ in 0..2 {
        let output = install(&db, &owner).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    installed(&fresh, &owner).await;
    run(&*fresh.connect_as(&owner).await, &grant).await;
    let (upgraded, fresh) = (value(&db, OBJECTS).await, value(&fresh, OBJECTS).await);
    for (upgraded, fresh) in upgraded.lines().zip(fresh.lines()) {
        assert_eq!(upgraded, fresh);
    }
    assert_eq!(upgraded, fresh);
    let consumer = db.connect_as(&consumer).await;
    assert_eq!(value(&consumer, &receive(MESSAGE)).await, "false");
}

#[tokio::test]
async fn an_upgrade_waits_for_no_consumer() {
    let db = with_inbox().await;
    let consumer = db.connect().await;
    run(&consumer, &format!("BEGIN; {}", receive(MESSAGE))).await;
    run(&db, &format!("ALTER DATABASE \"{}\" SET lock_timeout = '1s'", db.name())).await;
    let output = install(&db, "postgres").await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run(&consumer, "COMMIT").await;
}

#[tokio::test]
async fn a_schema_that_is_no_inbox_or_not_the_callers_alone_is_left_as_it_is() {
    let db = Postgres::shared().await.empty_database().await;
    let (owner, stranger) = (role(&db, "owner").await, role(&db, "stranger").await);
    let refused = async |role: &str, with: &str| {
        let before = value(&db, OBJECTS).await;
        let output = install(&db, role).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(with) && said.contains("HINT:"), "{said}");
        assert_eq!(value(&db, OBJECTS).await, before);
    };
    run(&db, "CREATE SCHEMA inbox").await;
    refused("postgres", "schema \"inbox\" already exists").await;
    run(&db, "DROP SCHEMA inbox").await;
    installed(&db, "postgres").await;
    run(&db, "ALTER TABLE inbox.received DROP CONSTRAINT received_pkey").await;
    refused("postgres", "is not the inbox of outbox").await;
    run(&db, "DROP SCHEMA inbox CASCADE").await;

    run(&db, &format!("GRANT CREATE ON DATABASE \"{}\" TO {owner}", db.name())).await;
    installed(&db, &owner).await;
    refused("postgres", "does not belong to postgres").await;
    let planted = format!(
        "GRANT USAGE, CREATE ON SCHEMA inbox TO {stranger}; SET ROLE {stranger};
         CREATE FUNCTION inbox.receive(a text, b uuid) RETURNS boolean LANGUAGE sql AS 'SELECT true'; RESET ROLE"
    );
    run(&db, &planted).await;
    refused(&owner, &format!("does not belong to {owner}")).await;
}

#[tokio::test]
async fn a_message_is_new_once_for_each_consumer() {
    let db = with_inbox().await;
    for consumer in ["billing", "shipping"] {
        let receive = format!("SELECT inbox.receive('{consumer}', '{MESSAGE}')");
        assert_eq!(value(&db, &receive).await, "true", "{consumer}");
        assert_eq!(value(&db, &receive).await, "false", "{consumer}");
    }
    assert_eq!(value(&db, &receive("0190163d-8694-739b-aea5-966c26f8ad91")).await, "true");
}

#[tokio::test]
async fn a_rollback_forgets_and_so_does_one_to_a_savepoint() {
    let db = with_inbox().await;
    run(&db, &format!("BEGIN; {}; ROLLBACK", receive(MESSAGE))).await;
    run(&db, &format!("BEGIN; SAVEPOINT s; {}; ROLLBACK TO s; COMMIT", receive(MESSAGE))).await;
    assert_eq!(value(&db, &receive(MESSAGE)).await, "true");
    assert_eq!(value(&db, &receive(MESSAGE)).await, "false");
}

#[tokio::test]
async fn a_consumer_that_wants_replays_receives_each_once() {
    let db = with_inbox().await;
    let receive = |replay: &str| format!("SELECT inbox.receive('billing', '{MESSAGE}', {replay})");
    for (replay, is_new) in
        [("NULL", "true"), ("0", "false"), ("1", "true"), ("1", "false"), ("2", "true"), ("1", "false")]
    {
        assert_eq!(value(&db, &receive(replay)).await, is_new, "{replay}");
    }
    assert_eq!(value(&db, &self::receive(MESSAGE)).await, "false", "without a number, a replay is not new");

    // One that came as a replay first.
    run(&db, "TRUNCATE inbox.received").await;
    for (replay, is_new) in [("3", "true"), ("NULL", "false"), ("0", "false"), ("3", "false"), ("1", "true")] {
        assert_eq!(value(&db, &receive(replay)).await, is_new, "{replay} after 3");
    }
    assert_eq!(value(&db, &self::receive(MESSAGE)).await, "false");
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let db = with_inbox().await;
    for (arguments, sqlstate) in [
        (format!("NULL, '{MESSAGE}'"), "22023"),
        (format!("'', '{MESSAGE}'"), "22023"),
        (format!("repeat('x', 256), '{MESSAGE}'"), "22023"),
        ("'billing', NULL".to_owned(), "22004"),
    ] {
        let error = refusal(&db, &format!("SELECT inbox.receive({arguments})")).await;
        assert_eq!(error.code().code(), sqlstate, "{arguments}: {error}");
        assert!(error.hint().is_some(), "{arguments}");
    }
    for span in ["NULL", "'0'", "'-1 day'"] {
        let error = refusal(&db, &format!("CALL inbox.forget({span})")).await;
        assert_eq!(error.code().code(), "22023", "{span}: {error}");
    }
}

#[tokio::test]
async fn a_message_is_remembered_for_the_span_and_then_forgotten() {
    let db = with_inbox().await;
    run(&db, &receive(MESSAGE)).await;
    for hours in [1, 23, 24 * 5, 23] {
        pass(&db, &format!("{hours} hours")).await;
        run(&db, "CALL inbox.forget('7 days')").await;
        assert_eq!(value(&db, &receive(MESSAGE)).await, "false");
    }
    pass(&db, "2 hours").await;
    assert_eq!(value(&db, &receive(MESSAGE)).await, "false", "what is old is known until it is forgotten");
    run(&db, "CALL inbox.forget('7 days')").await;
    assert_eq!(value(&db, &receive(MESSAGE)).await, "true");
}

/// As after months in which nobody called it.
const HISTORY: &str = "INSERT INTO inbox.received (message_id, consumer, received_at)
    SELECT gen_random_uuid(), 'billing', now() - n * interval '1 minute' FROM generate_series(0, 34999) AS n";

#[tokio::test]
async fn forgetting_takes_any_number_in_batches() {
    let db = with_inbox().await;
    run(&db, HISTORY).await;
    run(&db, "CALL inbox.forget('500 minutes 30 seconds')").await;
    assert_eq!(value(&db, "SELECT count(*) FROM inbox.received").await, "501");
    let oldest = "SELECT min(received_at) > now() - interval '502 minutes' FROM inbox.received";
    assert_eq!(value(&db, oldest).await, "true");
}

#[tokio::test]
async fn the_table_stays_as_large_as_what_is_remembered() {
    let db = with_inbox().await;
    // One that is at work keeps what this test's VACUUM would free.
    run(&db, "ALTER TABLE inbox.received SET (autovacuum_enabled = off)").await;
    let size = "SELECT pg_total_relation_size('inbox.received')";
    let mut sizes = Vec::new();
    for hours_ago in (0..24).rev() {
        let fill = format!(
            "INSERT INTO inbox.received (message_id, consumer, received_at)
             SELECT gen_random_uuid(), 'billing', now() - interval '{hours_ago} hours' FROM generate_series(1, 5000)"
        );
        run(&db, &fill).await;
        // Four batches are remembered.
        run(&db, &format!("CALL inbox.forget('{hours_ago} hours'::interval + '3 hours 30 minutes')")).await;
        run(&db, "VACUUM inbox.received").await;
        sizes.push(value(&db, size).await.parse::<u64>().unwrap());
    }
    let (full, last) = (sizes[7], sizes[23]);
    assert!(last * 10 < full * 13, "{sizes:?}");
}

#[tokio::test]
async fn forgetting_within_a_transaction_is_refused_and_forgets_nothing() {
    let db = with_inbox().await;
    run(&db, HISTORY).await;
    let error = refusal(&db, "BEGIN; CALL inbox.forget('1 hour')").await;
    assert_eq!(error.code().code(), "2D000", "{error}");
    run(&db, "ROLLBACK").await;
    assert_eq!(value(&db, "SELECT count(*) FROM inbox.received").await, "35000");
}

#[tokio::test]
async fn a_restored_inbox_knows_its_messages_and_goes_on() {
    let db = with_inbox().await;
    let consumer = role(&db, "consumer").await;
    run(&db, &format!("SELECT inbox.grant_receive('{consumer}'); {}", receive(MESSAGE))).await;
    let copy = copy(&db).await;
    let session = copy.connect_as(&consumer).await;
    assert_eq!(value(&session, &receive(MESSAGE)).await, "false");
    pass(&copy, "8 days").await;
    run(&copy, "CALL inbox.forget('7 days')").await;
    assert_eq!(value(&session, &receive(MESSAGE)).await, "true");
}

#[tokio::test]
async fn a_consumers_role_can_receive_and_nothing_else() {
    let db = with_inbox().await;
    let (consumer, stranger) = (role(&db, "consumer").await, role(&db, "stranger").await);
    run(&db, &format!("SELECT inbox.grant_receive('{consumer}')")).await;
    let (consumer, stranger) = (db.connect_as(&consumer).await, db.connect_as(&stranger).await);
    assert_eq!(value(&consumer, &receive(MESSAGE)).await, "true");
    for sql in [
        "SELECT FROM inbox.received",
        "INSERT INTO inbox.received (message_id, consumer, replay) VALUES (gen_random_uuid(), 'billing', 0)",
        "DELETE FROM inbox.received",
        "CALL inbox.forget('1 day')",
        "SELECT inbox.grant_receive('pg_monitor')",
        "CREATE TABLE inbox.mine (x int)",
    ] {
        for session in [&consumer, &stranger] {
            assert_eq!(refusal(session, sql).await.code().code(), "42501", "{sql}");
        }
    }
    assert_eq!(refusal(&stranger, &receive(MESSAGE)).await.code().code(), "42501");
}
