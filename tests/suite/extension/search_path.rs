//! A caller's search path, with objects of others' in it, changes nothing in what the functions and triggers of the
//! schemas do.

use harness::{Connection, Database, Postgres, SOON, eventually};

use super::{inbox, on_both_installations, run, text};
use crate::search_path::{
    assert_untouched,
    log::{Entry, entries},
    plant::{Planted, plant},
    used,
};

on_both_installations!(
    nothing_that_a_caller_has_planted_is_used_by_a_function_of_the_schemas,
    every_function_has_a_search_path_of_its_own_or_needs_none,
);

const IDS: [&str; 6] = [
    "00000000-0000-7000-8000-000000000001",
    "00000000-0000-7000-8000-000000000002",
    "00000000-0000-7000-8000-000000000003",
    "00000000-0000-7000-8000-000000000004",
    "00000000-0000-7000-8000-000000000005",
    "00000000-0000-7000-8000-000000000006",
];

/// What callers send. They name everything in full, so that only what happens within the calls is looked at.
fn calls(role: &str) -> Vec<String> {
    let [first, second, third, fourth, fifth, sixth] = IDS;
    let insert = |id: &str| {
        format!(
            "INSERT INTO outbox.events (id, topic, payload, aggregate_type, aggregate_id) VALUES ('{id}', 't', '{{}}', 'a', '{id}')"
        )
    };
    let is = |id: &str| format!("WHERE id OPERATOR(pg_catalog.=) '{id}'");
    let mut calls: Vec<String> = IDS.iter().map(|id| insert(id)).collect();
    calls.extend([
        "SELECT outbox.emit('t', '{\"a\": [1.5e3, \"x\", null, true, {\"b\": -0.001}]}', headers => '{\"h\": {\"a\": [1, null, \"x\"]}, \"n\": 1.5}',
             aggregate_type => 'a', aggregate_id => 'k', correlation_id => 'c', available_at => '2999-01-01Z')".to_owned(),
        "SELECT outbox.emit('t', 'a text', content_type => 'text/plain')".to_owned(),
        "SELECT outbox.emit('t', '\\x00'::pg_catalog.bytea)".to_owned(),
        "SELECT outbox.emit('', '{}')".to_owned(),
        "SELECT outbox.emit(NULL, '{}')".to_owned(),
        "SELECT outbox.emit('t', '{}', headers => '{\"\": 1}')".to_owned(),
        "SELECT outbox.emit('t', '{}', headers => '[]')".to_owned(),
        "SET outbox.correlation_id = 'c'; SET outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'".to_owned(),
        "SELECT outbox.emit('t', '{}')".to_owned(),
        "SELECT outbox.emit('t', '{}', headers => '{\"h\": 1}')".to_owned(),
        "SET outbox.max_payload_bytes = '1kB'".to_owned(),
        "SELECT outbox.emit('t', pg_catalog.to_jsonb(pg_catalog.repeat('x', 2000)))".to_owned(),
        "RESET outbox.max_payload_bytes; SET outbox.notify_status = on".to_owned(),
        "INSERT INTO outbox.events (topic, payload) SELECT 't', '{}' FROM pg_catalog.generate_series(1, 10050)".to_owned(),
        "SELECT outbox.pending_page(0, 10), outbox.pending_page(0, 10, '{a}', '{k}', 7)".to_owned(),
        "SELECT outbox.pending_page_by_bytes(0, 10, 1000), outbox.pending_page_by_bytes(0, 10, 1000, row_by_row => true)".to_owned(),
        format!("SELECT outbox.settle('{{{first},{second},{third}}}', '{{SENT,PENDING,FAILED}}', '{{NULL,nack,gone}}', '{{NULL,1,NULL}}', '{{f,t,t}}')"),
        format!("SELECT outbox.settle('{{{fourth},{sixth}}}', '{{SENT,SENT}}', '{{NULL,NULL}}')"),
        format!("SELECT outbox.settle('{{{fourth}}}', '{{PENDING}}', '{{NULL}}', '{{5}}', '{{t}}', true)"),
        "SELECT outbox.key_holders(10)".to_owned(),
        "SELECT outbox.keep_in_doubt('p', '{0190163d-8694-739b-aea5-966c26f8ad91}', '{0}', '{1000}', '{f}', 1000)".to_owned(),
        "SELECT outbox.events_in_doubt('p', 10)".to_owned(),
        "SELECT outbox.last_settled()".to_owned(),
        "SELECT outbox.keep_in_doubt('p', '{}', '{}', '{}', '{}', NULL)".to_owned(),
        "SELECT pg_catalog.pg_sleep(0.01)".to_owned(),
        "SELECT outbox.due_page(10, 1000, NULL, NULL), outbox.due_page(10, 1000, NULL, NULL, row_by_row => true)".to_owned(),
        "SELECT outbox.next_due()".to_owned(),
        format!("UPDATE outbox.events SET topic = 'other' {}", is(fifth)),
        format!("UPDATE outbox.events SET status = 'FAILED', last_error = 'x' {}", is(fifth)),
        format!("UPDATE outbox.events SET status = 'SENT' {}", is(fifth)),
        format!("UPDATE outbox.events SET attempts = 7 {}", is(fifth)),
        "SELECT outbox.health(), outbox.failures()".to_owned(),
        format!("SELECT outbox.replay('{fifth}'), outbox.release('{third}')"),
        "SELECT outbox.replay_many(topic => 't', max_events => 10)".to_owned(),
        format!("UPDATE outbox.events SET status = 'PENDING' {}", is(first)),
        format!("BEGIN; SET LOCAL session_replication_role = replica; UPDATE outbox.events SET attempts = -1 {}", is(first)),
        "ROLLBACK".to_owned(),
        format!("BEGIN; SET LOCAL session_replication_role = replica; UPDATE outbox.events SET status = 'FAILED', holds_key = true {}; COMMIT", is(sixth)),
        format!("DELETE FROM outbox.events {}", is(sixth)),
        format!("SELECT outbox.delete_events('{{{second},{fourth}}}')"),
        "SELECT outbox.ensure_publication('of_this_test'), outbox.ensure_publication('of_this_test')".to_owned(),
        "ALTER PUBLICATION of_this_test DROP TABLE outbox.events".to_owned(),
        "SELECT outbox.ensure_publication('of_this_test')".to_owned(),
        "SELECT pg_catalog.setval('outbox.events_seq_seq', 1)".to_owned(),
        "SELECT outbox.sequence_state(), outbox.ensure_sequence(), outbox.ensure_sequence()".to_owned(),
        "ALTER SEQUENCE outbox.events_seq_seq INCREMENT -7 CACHE 10 CYCLE".to_owned(),
        "SELECT outbox.ensure_sequence(), outbox.ensure_sequence()".to_owned(),
        "SELECT outbox.require_grant('outbox.next_due()')".to_owned(),
        "SELECT outbox.flush('0/1'), outbox.wake_relay(), outbox.version(), outbox.uuid_v7()".to_owned(),
        "SET outbox.allow_undumped_changes = off".to_owned(),
        "ALTER TABLE outbox.events ADD COLUMN mine pg_catalog.int4".to_owned(),
        "ALTER TABLE outbox.events DROP COLUMN mine".to_owned(),
        "CALL outbox.maintain('0', '0')".to_owned(),
        "CALL outbox.maintain('-1')".to_owned(),
    ]);
    for grant in ["emit", "relay", "operate", "monitor", "maintain"] {
        calls.push(format!("SELECT outbox.grant_{grant}('{role}')"));
    }
    calls.extend([
        format!("SELECT inbox.grant_receive('{role}')"),
        format!("SELECT inbox.receive('billing', '{first}'), inbox.receive('billing', '{first}'), inbox.receive('billing', '{first}', 3)"),
        format!("SELECT inbox.receive('', '{first}')"),
        "SELECT inbox.receive('billing', NULL)".to_owned(),
        "SELECT inbox.require_grant('inbox.receive(pg_catalog.text, pg_catalog.uuid, pg_catalog.int4)')".to_owned(),
        "CALL inbox.forget('0')".to_owned(),
        "CALL inbox.forget('1 microsecond')".to_owned(),
    ]);
    calls
}

/// A call of each function and procedure with arguments of its types that mean little.
const EACH: &str = "
    SELECT format('%s %I.%I(%s)', CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, p.pronamespace::regnamespace::text, p.proname,
        (SELECT string_agg(format('CAST(%L AS %I.%I)',
                    CASE WHEN t.typname IN ('int4', 'int8') THEN '1' WHEN t.typname = 'tid' THEN '(0,1)' WHEN t.typname = 'oid' THEN 'outbox.events'::regclass::oid::text
                         WHEN t.typname = 'bool' THEN 'true' WHEN t.typname = 'jsonb' THEN '{\"a\": 1}' WHEN t.typname = 'text' THEN 'x'
                         WHEN t.typname = 'status' THEN 'FAILED' END,
                    t.typnamespace::regnamespace::text, CASE t.typname WHEN 'anyelement' THEN 'text' ELSE t.typname END), ', ' ORDER BY n)
         FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, n) JOIN pg_type AS t ON t.oid = a.type))
    FROM pg_proc AS p
    WHERE p.pronamespace IN ('outbox'::regnamespace, 'inbox'::regnamespace)
      AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
    ORDER BY 1";

/// A session in which the calls are made, and what has become of each: `ok`, or the error's code.
async fn call_all(db: &Database, name: &str, begin: &str, calls: &[String]) -> (Connection, Vec<String>) {
    let reset = "TRUNCATE outbox.events, outbox.audit, inbox.received; DROP PUBLICATION IF EXISTS of_this_test";
    run(db, reset).await;
    let session = Connection::open(&format!("{}?application_name={name}", db.url())).await;
    run(&session, begin).await;
    let mut ends = Vec::new();
    for call in calls {
        let end = session.batch_execute(call).await;
        ends.push(end.map_or_else(|e| e.code().expect("the server's word").code().to_owned(), |()| "ok".to_owned()));
    }
    (session, ends)
}

/// Ends the session, and returns what it has logged.
async fn logged(db: &Database, session: Connection, name: &str, mark: usize) -> Vec<Entry> {
    drop(session);
    let gone = format!("SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE application_name = '{name}')");
    eventually("the session has ended", SOON, async || {
        if db.query_one(&gone, &[]).await.unwrap().get::<_, bool>(0) { Ok(()) } else { Err(()) }
    })
    .await;
    let log = std::fs::read(Postgres::shared().await.log_path()).unwrap();
    let mut entries = entries(&String::from_utf8_lossy(&log[mark..]), db.name());
    entries.retain(|entry| entry.application == name);
    entries
}

fn log_size(postgres: &Postgres) -> usize {
    usize::try_from(std::fs::metadata(postgres.log_path()).unwrap().len()).unwrap()
}

async fn nothing_that_a_caller_has_planted_is_used_by_a_function_of_the_schemas(db: Database) {
    let postgres = Postgres::shared().await;
    inbox::installed(&db, "postgres").await;
    let role = super::role(&db, "any").await;
    let mut calls = calls(&role);
    calls.extend(db.query(EACH, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));

    let told = "SET debug_print_parse = on; SET debug_pretty_print = off; SET track_functions = 'all'; SET statement_timeout = '60s'";
    let (mark, name) = (log_size(postgres), format!("{}_first", db.name()));
    let (session, ends) = call_all(&db, &name, told, &calls).await;
    let found = used(&logged(&db, session, &name, mark).await);
    let Planted { mut oids, names } = plant(&db, &found).await;
    assert!(names.len() > 60, "{names:?}");

    // Temporary objects come before those of others, and hide relations and types.
    let relations = "SELECT string_agg(DISTINCT format('CREATE TEMP VIEW %I AS SELECT 1 AS nothing', relname), '; ')
                     FROM pg_class WHERE relkind IN ('r', 'v')
                     AND (oid = ANY ($1) OR relnamespace IN ('outbox'::regnamespace, 'inbox'::regnamespace))";
    let temporary: String =
        db.query_one(relations, &[&found.relations.iter().copied().collect::<Vec<u32>>()]).await.unwrap().get(0);
    let hostile = format!("{temporary}; {told}; SET search_path = pg_temp, evil, pg_catalog, public");
    let (mark, name) = (log_size(postgres), format!("{}_hostile", db.name()));
    let (session, again) = call_all(&db, &name, &hostile, &calls).await;
    let temporary = "SELECT pg_catalog.array_agg(oid) FROM pg_catalog.pg_class
                     WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()";
    let temporary: Vec<u32> = session.query_one(temporary, &[]).await.unwrap().get(0);
    // The look itself is not one of the calls: its names are full.
    oids.extend(temporary);
    let entries = logged(&db, session, &name, mark).await;
    assert!(entries.len() > 100, "{}", entries.len());
    assert_untouched(&Planted { oids, names }, &entries);
    for ((call, first), then) in calls.iter().zip(&ends).zip(&again) {
        assert_eq!(first, then, "{call}");
    }

    let uncalled = "SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
        WHERE p.pronamespace IN ('outbox'::regnamespace, 'inbox'::regnamespace) AND l.lanname <> 'sql'
          AND pg_stat_get_function_calls(p.oid) IS NULL
          -- PostgreSQL 14 counts no call that ends in an error.
          AND (current_setting('server_version_num')::int >= 150000
               OR p.proname NOT IN ('refuse', 'refuse_envelope_change', 'limit_payloads'))";
    eventually("every function was called", SOON, async || match text(&db, uncalled).await {
        None => Ok(()),
        uncalled => Err(uncalled),
    })
    .await;
}

/// Beside what a caller's session does, this holds for the branches that no call of the test above takes.
async fn every_function_has_a_search_path_of_its_own_or_needs_none(db: Database) {
    inbox::installed(&db, "postgres").await;
    let unpinned = "SELECT string_agg(p.pronamespace::regnamespace || '.' || p.proname, ' ' ORDER BY p.proname)
        FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
        WHERE p.pronamespace IN ('outbox'::regnamespace, 'inbox'::regnamespace)
          AND NOT (l.lanname = 'sql' AND p.prosqlbody IS NOT NULL) -- its names were looked up when it was made
          AND l.lanname <> 'c' AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
          AND p.prosrc <> 'SELECT ids'";
    // The procedures commit, and set it in each transaction; is_large() is inlined, and names everything in full.
    assert_eq!(text(&db, unpinned).await.as_deref(), Some("inbox.forget outbox.is_large outbox.maintain"));
}
