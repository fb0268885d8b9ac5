//! `outbox.ensure_sequence`: each new event has a greater `seq` than all before it, whatever somebody has done to the
//! sequence.

use harness::Database;

use super::{dump::copy_rows, on_both_installations, refusal, role, run, value, with_plain_sql, with_the_extension};

on_both_installations!(
    one_that_is_as_it_was_made_is_left_alone_whoever_emits,
    one_that_is_behind_the_rows_is_moved_beyond_them_in_whatever_state_those_are,
    each_parameter_that_breaks_the_order_is_named_and_put_back,
    a_parameter_that_breaks_no_order_is_left_as_it_is,
    numbers_that_sessions_have_taken_in_advance_are_given_up,
    one_that_would_come_to_the_end_of_all_numbers_is_named_and_not_moved,
    it_waits_for_an_open_transaction_that_has_emitted_no_longer_than_emitters_bear,
    where_ddl_is_frozen_one_that_is_behind_is_moved_all_the_same,
    only_the_relay_mends_it_and_monitoring_looks_at_it,
    what_is_found_of_the_rows_costs_the_same_however_many_there_are,
);

const IN_ORDER: &str = "in order";

pub(super) async fn ensure(db: &tokio_postgres::Client) -> String {
    value(db, "SELECT outbox.ensure_sequence()").await
}

async fn codes(db: &Database) -> String {
    value(db, "SELECT codes FROM outbox.sequence_state()").await
}

pub(super) async fn emit(db: &tokio_postgres::Client) -> i64 {
    let id = value(db, "SELECT outbox.emit('t', '{}')").await;
    db.query_one(&format!("SELECT seq FROM outbox.events WHERE id = '{id}'"), &[]).await.unwrap().get(0)
}

async fn one_that_is_as_it_was_made_is_left_alone_whoever_emits(db: Database) {
    assert_eq!(ensure(&db).await, IN_ORDER, "before the first event");
    let (other, open) = (db.connect().await, db.connect().await);
    run(&open, "BEGIN; SELECT outbox.emit('t', '{}')").await;
    for next in [2, 4, 6] {
        assert_eq!((emit(&db).await, emit(&other).await), (next, next + 1));
        assert_eq!(ensure(&db).await, IN_ORDER);
    }
    run(&db, "BEGIN READ ONLY").await;
    assert_eq!(ensure(&db).await, IN_ORDER, "and nothing is written");
    run(&db, "COMMIT").await;
    let state = "SELECT concat_ws(' ', sequence, next_value, greatest_seq, codes, fault) FROM outbox.sequence_state()";
    assert_eq!(value(&db, state).await, "outbox.events_seq_seq 8 7 {}");
}

async fn one_that_is_behind_the_rows_is_moved_beyond_them_in_whatever_state_those_are(db: Database) {
    let states = [
        "SELECT",
        "UPDATE outbox.events SET status = 'SENT'",
        "UPDATE outbox.events SET status = 'FAILED', last_error = 'x'",
        "UPDATE outbox.events SET available_at = now() + interval '1 day'",
    ];
    for state in states {
        run(&db, "TRUNCATE outbox.events RESTART IDENTITY").await;
        run(&db, "SELECT outbox.emit('t', '{}') FROM generate_series(1, 3000)").await;
        run(&db, &format!("SET session_replication_role = replica; {state}; RESET session_replication_role")).await;
        // The newest ids are not those with the greatest numbers, as where applications give their own.
        run(&db, "INSERT INTO outbox.events (id, topic, payload) SELECT gen_random_uuid(), 't', '{}' FROM generate_series(1, 10)")
            .await;
        run(&db, "SELECT setval('outbox.events_seq_seq', 1500)").await;
        assert_eq!(codes(&db).await, "{behind}", "{state}");
        let said = ensure(&db).await;
        assert!(said.contains("get the number 1501") && said.contains("there is one with 3010"), "{state}: {said}");
        assert!(emit(&db).await > 3010, "{state}");
        assert_eq!((codes(&db).await.as_str(), ensure(&db).await.as_str()), ("{}", IN_ORDER), "{state}");
    }
    run(&db, "ALTER SEQUENCE outbox.events_seq_seq MAXVALUE 5000 RESTART 1500").await;
    ensure(&db).await;
    assert!(emit(&db).await > 3010, "also if it is beyond its bounds");
    run(&db, "TRUNCATE outbox.events; SELECT outbox.emit('t', '{}'); SELECT setval('outbox.events_seq_seq', 1, false)")
        .await;
    assert_eq!(codes(&db).await, "{behind}");
    ensure(&db).await;
    assert_eq!(codes(&db).await, "{}");
}

#[tokio::test]
async fn events_that_are_emitted_after_a_copy_of_the_rows_alone_come_after_them() {
    let db = with_the_extension().await;
    run(&db, "SELECT outbox.emit('t', '{}') FROM generate_series(1, 100)").await;
    for copy in [with_the_extension().await, with_plain_sql().await] {
        copy_rows(&db, &copy).await;
        assert_eq!(value(&copy, "SELECT count(*) FROM outbox.events").await, "100");
        assert_eq!(codes(&copy).await, "{behind}", "or this shows nothing");
        ensure(&copy).await;
        assert!(emit(&copy).await > 100);
    }
}

async fn each_parameter_that_breaks_the_order_is_named_and_put_back(db: Database) {
    let pristine =
        "SELECT concat_ws(' ', data_type, start_value, min_value, max_value, increment_by, cycle, cache_size)
        FROM pg_sequences WHERE schemaname = 'outbox' AND sequencename = 'events_seq_seq'";
    let was = value(&db, pristine).await;
    for (change, named) in [
        ("CACHE 10", "CACHE is 10"),
        ("CYCLE", "it has CYCLE"),
        ("INCREMENT -1", "INCREMENT is -1"),
        ("INCREMENT -1 MINVALUE -100 START -5 RESTART -5", "INCREMENT is -1"),
        ("MAXVALUE 20", "no number is left: they are from 1 to 20"),
        ("MAXVALUE 25 CYCLE CACHE 2 RESTART 3", "CACHE is 2"),
    ] {
        let emit_some =
            "TRUNCATE outbox.events RESTART IDENTITY; SELECT outbox.emit('t', '{}') FROM generate_series(1, 20)";
        run(&db, emit_some).await;
        run(&db, &format!("ALTER SEQUENCE outbox.events_seq_seq {change}")).await;
        assert!(codes(&db).await.contains("altered"), "{change}");
        let said = ensure(&db).await;
        assert!(said.contains(named), "{change}: {said}");
        assert_eq!(value(&db, pristine).await, was, "{change}");
        assert_eq!((codes(&db).await.as_str(), ensure(&db).await.as_str()), ("{}", IN_ORDER), "{change}");
        let last: i64 = value(&db, "SELECT max(seq) FROM outbox.events").await.parse().unwrap();
        assert!(emit(&db).await > last, "{change}");
    }
    // With the extension, this session was let alter what a dump would lose. This is no such thing.
    run(&db, "RESET ALL; ALTER SEQUENCE outbox.events_seq_seq CACHE 10").await;
    ensure(&db).await;
    assert_eq!(value(&db, pristine).await, was);
}

async fn a_parameter_that_breaks_no_order_is_left_as_it_is(db: Database) {
    let parameters =
        "SELECT concat_ws(' ', data_type, start_value, min_value, max_value, increment_by, cycle, cache_size)
        FROM pg_sequences WHERE schemaname = 'outbox' AND sequencename = 'events_seq_seq'";
    for change in ["INCREMENT 2", "START 1000", "MAXVALUE 2000000000", "AS integer", "MINVALUE -5"] {
        run(&db, &format!("SELECT outbox.emit('t', '{{}}'); ALTER SEQUENCE outbox.events_seq_seq {change}")).await;
        let was = value(&db, parameters).await;
        assert_eq!((codes(&db).await.as_str(), ensure(&db).await.as_str()), ("{}", IN_ORDER), "{change}");
        run(&db, "SELECT setval('outbox.events_seq_seq', 1)").await;
        ensure(&db).await;
        assert_eq!((codes(&db).await.as_str(), value(&db, parameters).await), ("{}", was), "{change}");
    }
}

async fn numbers_that_sessions_have_taken_in_advance_are_given_up(db: Database) {
    run(&db, "ALTER SEQUENCE outbox.events_seq_seq CACHE 10").await;
    let (one, other) = (db.connect().await, db.connect().await);
    assert_eq!([emit(&one).await, emit(&other).await, emit(&one).await], [1, 11, 2], "or this test shows nothing");
    let said = ensure(&db).await;
    assert!(said.contains("CACHE is 10"), "{said}");
    let mut before = 20;
    for session in [&one, &other, &one, &one, &other] {
        let next = emit(session).await;
        assert!(next > before, "{next} after {before}");
        before = next;
    }
}

/// Of the extension's table, nobody can drop the identity.
#[tokio::test]
async fn one_that_belongs_to_a_default_is_looked_after_and_a_default_without_one_is_named() {
    let db = with_plain_sql().await;
    run(&db, "SELECT outbox.emit('t', '{}'), outbox.emit('t', '{}')").await;
    run(&db, "CREATE SEQUENCE \"Of mine\"; ALTER TABLE outbox.events ALTER seq DROP IDENTITY").await;
    assert_eq!(codes(&db).await, "{no_sequence}");
    let error = refusal(&db, "SELECT outbox.ensure_sequence()").await;
    assert_eq!(error.code().code(), "55000");
    run(&db, "ALTER TABLE outbox.events ALTER seq SET DEFAULT nextval('\"Of mine\"')").await;
    assert_eq!(codes(&db).await, "{behind}");
    let said = ensure(&db).await;
    assert!(said.contains("get the number 1,"), "{said}");
    run(&db, "ALTER SEQUENCE \"Of mine\" CACHE 5").await;
    ensure(&db).await;
    assert_eq!(codes(&db).await, "{}");
    assert!(emit(&db).await > 2);

    for default in ["nextval('\"Of mine\"') * 10", "-nextval('\"Of mine\"')", "nextval('\"Of mine\"'::text)"] {
        run(&db, &format!("ALTER TABLE outbox.events ALTER seq SET DEFAULT {default}")).await;
        assert_eq!(codes(&db).await, "{no_sequence}", "{default}: its numbers are others than the sequence's");
    }
    run(&db, "ALTER TABLE outbox.events ALTER seq SET DEFAULT nextval('\"Of mine\"')").await;
    assert_eq!(codes(&db).await, "{}");

    // Its owner could put a view with functions of his own in its place.
    let other = role(&db, "other").await;
    run(&db, &format!("ALTER SEQUENCE \"Of mine\" OWNER TO {other}; SELECT setval('\"Of mine\"', 1)")).await;
    assert_eq!(codes(&db).await, "{foreign_sequence}");
    let error = refusal(&db, "SELECT outbox.ensure_sequence()").await;
    assert!(error.code().code() == "55000" && error.message().contains(&other), "{error}");
    run(&db, "ALTER SEQUENCE \"Of mine\" OWNER TO CURRENT_USER").await;
    ensure(&db).await;
    assert!(emit(&db).await > 3);
}

async fn one_that_would_come_to_the_end_of_all_numbers_is_named_and_not_moved(db: Database) {
    run(&db, "INSERT INTO outbox.events (seq, topic, payload) OVERRIDING SYSTEM VALUE VALUES (9223372036854775807, 't', '{}')")
        .await;
    assert_eq!(codes(&db).await, "{behind,near_end}");
    let error = refusal(&db, "SELECT outbox.ensure_sequence()").await;
    assert_eq!(error.code().code(), "55000");
    assert_eq!(emit(&db).await, 1, "events can be emitted still");
    run(&db, "DELETE FROM outbox.events WHERE seq > 1; SELECT setval('outbox.events_seq_seq', 9223372036854775807)")
        .await;
    assert_eq!(codes(&db).await, "{near_end}");
    refusal(&db, "SELECT outbox.ensure_sequence()").await;
}

async fn it_waits_for_an_open_transaction_that_has_emitted_no_longer_than_emitters_bear(db: Database) {
    let open = db.connect().await;
    run(&db, "ALTER SEQUENCE outbox.events_seq_seq CACHE 10").await;
    run(&open, "BEGIN; SELECT outbox.emit('t', '{}')").await;
    let error = refusal(&db, "SELECT outbox.ensure_sequence()").await;
    assert_eq!(error.code().code(), "55006", "{error}");
    assert!(error.message().contains("CACHE is 10"), "{error}");
    run(&db, "SELECT setval('outbox.events_seq_seq', 1)").await;
    run(&open, "COMMIT; BEGIN; SELECT outbox.emit('t', '{}')").await;
    run(&db, "SELECT setval('outbox.events_seq_seq', 1, false)").await;
    refusal(&db, "SELECT outbox.ensure_sequence()").await;
    assert_eq!(codes(&db).await, "{altered}", "one that is behind does not wait for it");
    run(&open, "COMMIT").await;
    ensure(&db).await;
    assert_eq!(codes(&db).await, "{}");
}

async fn where_ddl_is_frozen_one_that_is_behind_is_moved_all_the_same(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('t', '{}') FROM generate_series(1, 5); ALTER SEQUENCE outbox.events_seq_seq RESTART 2",
    )
    .await;
    let freeze = "CREATE FUNCTION no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'DDL is frozen until Monday'; END $$;
        CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION no_ddl()";
    run(&db, freeze).await;
    ensure(&db).await;
    assert_eq!(codes(&db).await, "{}");
    run(&db, "DROP EVENT TRIGGER no_ddl").await;
}

async fn only_the_relay_mends_it_and_monitoring_looks_at_it(db: Database) {
    let roles = [("relay", true, true), ("monitor", false, true), ("operate", false, true), ("emit", false, false)];
    run(&db, "SELECT outbox.emit('t', '{}'), outbox.emit('t', '{}')").await;
    for (grant, may_mend, may_look) in roles {
        let role = role(&db, grant).await;
        run(&db, &format!("SET client_min_messages = warning; SELECT outbox.grant_{grant}('{role}')")).await;
        run(&db, "SELECT setval('outbox.events_seq_seq', 1)").await;
        let session = db.connect_as(&role).await;
        for (call, may) in [("outbox.sequence_state()", may_look), ("outbox.ensure_sequence()", may_mend)] {
            let call = format!("SELECT {call}");
            if may {
                run(&session, &call).await;
            } else {
                assert_eq!(refusal(&session, &call).await.code().code(), "42501", "{grant}: {call}");
            }
        }
        assert_eq!(codes(&db).await, if may_mend { "{}" } else { "{behind}" }, "{grant}");
    }
}

/// Sessions whose plans were made while the table was empty, with statistics or without.
async fn what_is_found_of_the_rows_costs_the_same_however_many_there_are(db: Database) {
    run(&db, "ALTER TABLE outbox.events SET (autovacuum_enabled = off)").await;
    for _ in 0..10 {
        run(&db, "SELECT outbox.sequence_state()").await; // PostgreSQL settles on one plan after five
    }
    let some = "INSERT INTO outbox.events (topic, payload) SELECT 't', '{}' FROM generate_series(1, 40000);
        SET session_replication_role = replica; UPDATE outbox.events SET status = 'SENT' WHERE seq % 100 <> 0;
        RESET session_replication_role";
    for (state, then) in [("never analysed", "SELECT"), ("analysed", "VACUUM ANALYZE outbox.events")] {
        run(&db, some).await;
        run(&db, then).await;
        let read = async || {
            let counted = "SELECT ARRAY[seq_scan, idx_tup_fetch, seq_tup_read] FROM pg_stat_xact_user_tables
                           WHERE relid = 'outbox.events'::regclass";
            db.query_one(counted, &[]).await.unwrap().get::<_, Vec<i64>>(0)
        };
        run(&db, "BEGIN").await; // within a transaction the counters are not handed over to the server's
        let before = read().await;
        run(&db, "SELECT outbox.sequence_state()").await;
        let cost: Vec<i64> = read().await.iter().zip(before).map(|(after, before)| after - before).collect();
        run(&db, "COMMIT").await;
        let [scans, by_index, of_pages] = cost[..] else { panic!("{cost:?}") };
        assert_eq!(scans, 0, "{state}");
        assert!(by_index < 4000 && (1..4000).contains(&of_pages), "{state}: {cost:?} of 40,000 rows");
    }
}
