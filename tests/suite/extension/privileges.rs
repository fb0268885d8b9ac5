//! Who may do what.

use harness::{Database, Postgres};

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    a_role_with_execute_on_emit_alone_can_emit_and_nothing_else,
    a_role_without_any_grant_can_do_nothing,
    the_relays_role_can_do_the_relays_work_and_nothing_else,
    an_operators_role_can_look_and_replay,
    monitoring_sees_how_events_fare_without_their_contents_and_changes_nothing,
    only_harmless_functions_are_open_to_everybody,
    objects_that_hide_ours_are_not_used,
    what_a_caller_has_deferred_until_commit_is_done_with_the_callers_rights,
    a_role_with_an_odd_name_can_be_granted_to,
);

const EMIT: &str = "SELECT outbox.emit('a', '{}'::jsonb)";
const FORBIDDEN: [&str; 6] = [
    "SELECT id FROM outbox.events",
    "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')",
    "UPDATE outbox.events SET status = 'SENT'",
    "DELETE FROM outbox.events",
    "TRUNCATE outbox.events",
    "SELECT * FROM outbox.failed",
];
const RELAY: [&str; 10] = [
    "SELECT outbox.pending_page(0, 10)",
    "SELECT outbox.pending_page_by_bytes(0, 10, 1000)",
    "SELECT outbox.due_page(10, 1000, NULL, NULL)",
    "SELECT outbox.next_due()",
    "SELECT outbox.last_settled()",
    "SELECT outbox.keep_in_doubt('p', '{}', '{}', '{}', '{}', NULL)",
    "SELECT outbox.events_in_doubt('p', 10)",
    "SELECT outbox.settle('{}', '{}', '{}')",
    "SELECT outbox.ensure_publication('outbox')",
    "SELECT outbox.ensure_sequence()",
];
const MONITOR: [&str; 3] = ["SELECT outbox.health()", "SELECT outbox.failures()", "SELECT outbox.sequence_state()"];
const OPERATOR: [&str; 2] =
    ["SELECT outbox.replay('0190163d-8694-739b-aea5-966c26f8ad91')", "SELECT outbox.replay_many(topic => 'a')"];

async fn allowed(session: &tokio_postgres::Client, statements: &[&str]) {
    for sql in statements {
        run(session, sql).await;
    }
}

async fn forbidden(session: &tokio_postgres::Client, statements: &[&str]) {
    for sql in statements {
        assert_eq!(refusal(session, sql).await.code().code(), "42501", "{sql}");
    }
}

async fn a_role_with_execute_on_emit_alone_can_emit_and_nothing_else(db: Database) {
    let app = role(&db, "app").await;
    run(
        &db,
        &format!(
            "GRANT EXECUTE ON FUNCTION outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz),
             outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz) TO {app}"
        ),
    )
    .await;
    let session = db.connect_as(&app).await;
    allowed(&session, &[EMIT, "SELECT outbox.emit('a', '{}')"]).await;
    forbidden(&session, &FORBIDDEN).await;
    forbidden(&session, &RELAY).await;
    forbidden(&session, &OPERATOR).await;
    forbidden(&session, &["SELECT outbox.grant_emit(current_user::regrole)"]).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "2");
}

async fn a_role_without_any_grant_can_do_nothing(db: Database) {
    let nobody = role(&db, "nobody").await;
    let session = db.connect_as(&nobody).await;
    forbidden(&session, &[EMIT, "SELECT outbox.emit('a', '{}')", "SELECT outbox.emit('a', '\\x00'::bytea)"]).await;
    forbidden(&session, &FORBIDDEN).await;
    forbidden(&session, &RELAY).await;
    forbidden(&session, &OPERATOR).await;
    forbidden(&session, &MONITOR).await;
    allowed(&session, &["SELECT outbox.version()", "SELECT outbox.uuid_v7()"]).await;
}

async fn the_relays_role_can_do_the_relays_work_and_nothing_else(db: Database) {
    let relay = role(&db, "relay").await;
    run(&db, &format!("SELECT outbox.grant_relay('{relay}')")).await;
    let id = value(&db, EMIT).await;
    let session = db.connect_as(&relay).await;
    allowed(&session, &RELAY).await;
    assert_eq!(value(&session, "SELECT count(*) FROM outbox.pending_page_by_bytes(0, 10, 1000)").await, "1");
    run(&session, &format!("SELECT outbox.settle('{{{id}}}', '{{SENT}}', '{{NULL}}')")).await;
    assert_eq!(value(&db, "SELECT status FROM outbox.events").await, "SENT");
    forbidden(&session, &[EMIT]).await;
    forbidden(&session, &FORBIDDEN).await;
    forbidden(&session, &OPERATOR).await;
}

/// On Amazon RDS and Aurora roles replicate by membership in another.
#[tokio::test]
async fn a_role_that_may_not_replicate_is_told_the_servers_way_to_it_and_one_that_may_is_told_nothing() {
    let postgres = Postgres::private().start().await;
    let db = postgres.database().await;
    run(&db, "CREATE ROLE plain; CREATE ROLE direct REPLICATION").await;
    let told = |role: &str| {
        let grant = format!("SELECT outbox.grant_relay('{role}')");
        let output = postgres.program("psql").args([db.url(), "--quiet", "--command", &grant]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let notice = told("plain");
    assert!(notice.contains("NOTICE") && notice.contains("ALTER ROLE plain REPLICATION"), "{notice:?}");
    run(&db, "CREATE ROLE rds_replication; CREATE ROLE amazon IN ROLE rds_replication").await;
    let notice = told("plain");
    assert!(notice.contains("NOTICE") && notice.contains("GRANT rds_replication TO plain"), "{notice:?}");
    assert_eq!([told("direct"), told("amazon")], ["", ""]);
}

async fn an_operators_role_can_look_and_replay(db: Database) {
    let operator = role(&db, "operator").await;
    run(&db, &format!("SELECT outbox.grant_operate('{operator}')")).await;
    run(&db, &format!("{EMIT}; UPDATE outbox.events SET status = 'FAILED'")).await;
    let session = db.connect_as(&operator).await;
    allowed(&session, &["SELECT * FROM outbox.events", "SELECT * FROM outbox.failed", "SELECT * FROM outbox.backlog"])
        .await;
    allowed(&session, &MONITOR).await;
    allowed(&session, &OPERATOR).await;
    assert_eq!(value(&db, "SELECT status FROM outbox.events").await, "PENDING");
    forbidden(&session, &[EMIT]).await;
    forbidden(&session, &FORBIDDEN[1..5]).await;
    forbidden(&session, &RELAY).await;
}

async fn monitoring_sees_how_events_fare_without_their_contents_and_changes_nothing(db: Database) {
    let monitor = role(&db, "monitor").await;
    run(&db, &format!("SELECT outbox.grant_monitor('{monitor}')")).await;
    run(&db, &format!("{EMIT}; UPDATE outbox.events SET status = 'FAILED', last_error = 'nack'")).await;
    let session = db.connect_as(&monitor).await;
    allowed(&session, &MONITOR).await;
    allowed(&session, &["SELECT * FROM outbox.failed", "SELECT * FROM outbox.backlog", "SELECT outbox.version()"])
        .await;
    assert_eq!(value(&session, "SELECT count(*) FROM outbox.events").await, "1");
    let contents = ["payload", "payload_bytes", "headers"];
    let columns = "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
                   WHERE attrelid = 'outbox.events'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> ALL ($1)";
    let columns: String = db.query_one(columns, &[&&contents[..]]).await.unwrap().get(0);
    allowed(&session, &[&*format!("SELECT {columns} FROM outbox.events")]).await;
    for column in contents {
        let ways = [
            "SELECT {} FROM outbox.events",
            "SELECT FROM outbox.events WHERE {} IS NULL",
            "SELECT to_jsonb(e) FROM outbox.events AS e",
        ];
        for way in ways {
            forbidden(&session, &[&*way.replace("{}", column)]).await;
        }
        for view in ["failed", "backlog"] {
            let shown = format!(
                "SELECT count(*) FROM pg_attribute WHERE attrelid = 'outbox.{view}'::regclass AND attname = '{column}'"
            );
            assert_eq!(value(&db, &shown).await, "0");
        }
    }
    forbidden(&session, &[EMIT, "SELECT outbox.count_by_seq('FAILED')", "SELECT id FROM outbox.events FOR UPDATE"])
        .await;
    forbidden(&session, &FORBIDDEN[1..5]).await;
    forbidden(&session, &RELAY).await;
    forbidden(&session, &OPERATOR).await;
}

async fn only_harmless_functions_are_open_to_everybody(db: Database) {
    let open = "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = 'outbox'::regnamespace AND has_function_privilege('public', oid, 'EXECUTE')";
    assert_eq!(value(&db, open).await, "emit uuid_v7 version wake_relay");
}

async fn objects_that_hide_ours_are_not_used(db: Database) {
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}'); CREATE SCHEMA trap AUTHORIZATION {app}")).await;
    let session = db.connect_as(&app).await;
    run(
        &session,
        "CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
         CREATE FUNCTION trap.octet_length(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
         CREATE FUNCTION trap.current_setting(text, bool) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
         CREATE TABLE trap.events (id uuid, topic text, payload jsonb);
         CREATE TEMP TABLE events (id uuid, topic text, payload jsonb);
         SET search_path = trap, pg_temp, outbox, pg_catalog;
         SELECT outbox.emit('a', '{}'::jsonb);
         SELECT outbox.emit('a', '{}');
         INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')",
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "3");
    assert_eq!(
        refusal(&session, "INSERT INTO outbox.events (topic, payload) VALUES ('', '{}')").await.code().code(),
        "22023"
    );

    // Every function that runs as its owner says where it looks.
    let unpinned = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND prosecdef
        AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)";
    assert_eq!(value(&db, unpinned).await, "0");
}

/// A trigger that runs early, inside one of our functions that run as the owner, would hand over the owner's rights.
async fn what_a_caller_has_deferred_until_commit_is_done_with_the_callers_rights(db: Database) {
    let app = role(&db, "app").await;
    run(
        &db,
        &format!("CREATE SCHEMA mine AUTHORIZATION {app}; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO {app}"),
    )
    .await;
    let calls = "SELECT format('SELECT outbox.%I(%s)', p.proname,
                     (SELECT string_agg(format('%L::%s', CASE name WHEN 'bigint' THEN '0' WHEN 'integer' THEN '1'
                                                              WHEN 'timestamp with time zone' THEN 'now' END, name), ', ' ORDER BY n)
                      FROM unnest(p.proargtypes) WITH ORDINALITY AS u (type, n), format_type(type, NULL) AS name))
                 FROM pg_proc AS p
                 WHERE p.pronamespace = 'outbox'::regnamespace AND p.prokind = 'f'
                   AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)";
    let calls: Vec<String> = db.query(calls, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(calls.len() > 20, "{calls:?}");
    let session = db.connect_as(&app).await;
    run(
        &session,
        "CREATE TABLE mine.t (a int);
         CREATE FUNCTION mine.f() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF current_user <> session_user THEN RAISE 'as %', current_user; END IF; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER t AFTER INSERT ON mine.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mine.f()",
    )
    .await;
    for call in calls {
        run(&session, "BEGIN; INSERT INTO mine.t VALUES (1)").await;
        if let Err(error) = session.batch_execute(&call).await {
            let message = error.as_db_error().unwrap().message();
            assert!(!message.starts_with("as "), "{call}: {message}");
        }
        run(&session, "ROLLBACK").await;
    }
}

async fn a_role_with_an_odd_name_can_be_granted_to(db: Database) {
    let odd = format!(r#""{} O'Role"""#, db.name()) + r#"""#;
    run(&db, &format!("DROP ROLE IF EXISTS {odd}; CREATE ROLE {odd}")).await;
    let literal = odd.replace('\'', "''");
    run(
        &db,
        &format!(
            "SELECT outbox.grant_emit('{literal}'), outbox.grant_relay('{literal}'), outbox.grant_operate('{literal}'),
                    outbox.grant_monitor('{literal}'), outbox.grant_maintain('{literal}')"
        ),
    )
    .await;
    run(&db, &format!("SET ROLE {odd}; SELECT outbox.emit('a', '{{}}'); RESET ROLE")).await;
}
