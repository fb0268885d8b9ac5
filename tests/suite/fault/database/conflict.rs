//! The verdict's UPDATE fails: for others' transactions, others' triggers, or the role's own settings.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harness::{Database, Stack};

use super::{Load, check, drop_role, emit, lost_sessions, relay, relay_role, run, wait_until, wait_until_sent};

#[tokio::test]
async fn serialization_failures_delay_verdicts_and_lose_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    run(&stack.db, &format!("ALTER ROLE {role} SET default_transaction_isolation = 'serializable'")).await;
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let load = Load::start(stack.db.url());
    let meddler = meddle(&stack.db).await;
    load.goes_on(1500).await;
    let committed = load.stop().await;
    meddler.await.unwrap();
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
    drop(relay);
    drop_role(&stack, &role).await;
}

/// Reads and writes the rows whose verdicts are due, for a second.
async fn meddle(db: &Database) -> tokio::task::JoinHandle<()> {
    let db = db.connect().await;
    tokio::spawn(async move {
        let sql = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM outbox.events WHERE status <> 'FAILED';
                   UPDATE outbox.events SET topic = topic WHERE id IN
                   (SELECT id FROM outbox.events WHERE status = 'PENDING' ORDER BY random() LIMIT 20); COMMIT";
        for _ in 0..200 {
            if db.batch_execute(sql).await.is_err() {
                run(&db, "ROLLBACK").await; // it met a failure of its own
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // a pace that leaves the relay something to win
        }
    })
}

#[tokio::test]
async fn a_deadlock_with_another_session_delays_verdicts_and_loses_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let other = stack.db.connect().await;
    relay.pause();
    // Verdicts are written in the order of ids.
    let (first, second) = (emit(&stack.db, "one", 1).await, emit(&stack.db, "two", 2).await);
    // The other session waits longer before it looks for a deadlock, so it is the relay's transaction that is ended.
    run(&other, "SET deadlock_timeout = '20s'").await;
    run(&other, &format!("BEGIN; UPDATE outbox.events SET topic = topic WHERE id = '{second}'")).await;
    relay.resume();
    consumer.wait_for(2).await;
    run(&other, &format!("UPDATE outbox.events SET topic = topic WHERE id = '{first}'")).await;
    run(&other, "COMMIT").await;
    check(&stack.db, &consumer, &[first, second], 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}

#[tokio::test]
async fn a_trigger_of_the_users_that_fails_now_and_then_delays_verdicts_and_loses_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("in-flight", "20").set("log", "info,relay=debug").start().await;
    let trigger = "
        SET outbox.allow_undumped_changes = on;
        CREATE SEQUENCE updates;
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.updates') % 100 = 0 THEN RAISE EXCEPTION 'not now'; END IF; RETURN new;
        END $$;
        CREATE TRIGGER fail BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION fail()";
    run(&stack.db, trigger).await;
    let load = Load::start(stack.db.url());
    load.goes_on(500).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert!(relay.log_text().contains("not written"), "a fault that nobody met");
    assert_eq!(lost_sessions(&relay), 0);
}

#[tokio::test]
async fn a_trigger_of_the_users_that_refuses_one_row_harms_no_other() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let trigger = "
        SET outbox.allow_undumped_changes = on;
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF new.aggregate_id = 'poison' THEN RAISE EXCEPTION 'never'; END IF; RETURN new;
        END $$;
        CREATE TRIGGER fail BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION fail()";
    run(&stack.db, trigger).await;
    let mut committed = vec![emit(&stack.db, "poison", 1).await];
    let load = Load::start(stack.db.url());
    load.goes_on(500).await;
    committed.extend(load.stop().await);
    let pending = "(SELECT count(*) FROM outbox.events WHERE status = 'PENDING')";
    wait_until(&stack.db, "all others have their verdicts", &format!("{pending} = 1")).await;

    run(&stack.db, "DROP TRIGGER fail ON outbox.events").await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}

/// Of some errors the relay would connect anew, which does not help against a trigger: what was published would be
/// published again, without an end.
#[tokio::test]
async fn no_error_of_a_trigger_of_the_users_ends_a_session() {
    const ERRORS: [&str; 16] = [
        "08001", "08006", "0A000", "25006", "26000", "3F000", "42501", "42601", "42703", "42704", "42883", "42P01",
        "57P01", "57P03", "58030", "XX000",
    ];
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let trigger = "
        SET outbox.allow_undumped_changes = on;
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF new.aggregate_id ~ '^[0-9A-Z]{5}$' THEN
                RAISE EXCEPTION 'never' USING ERRCODE = new.aggregate_id;
            END IF;
            RETURN new;
        END $$;
        CREATE FUNCTION fail_always() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO a_table_without_its_schema VALUES (1); RETURN NULL;
        END $$;
        CREATE TABLE a_table_without_its_schema (n int);
        CREATE TRIGGER fail BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION fail()";
    run(&stack.db, trigger).await;
    let mut committed = Vec::new();
    for error in ERRORS {
        committed.push(emit(&stack.db, error, 1).await);
    }
    let load = Load::start(stack.db.url());
    load.goes_on(300).await;
    committed.extend(load.stop().await);
    let pending = "(SELECT count(*) FROM outbox.events WHERE status = 'PENDING')";
    wait_until(&stack.db, "all others have their verdicts", &format!("{pending} = {}", ERRORS.len())).await;

    run(&stack.db, "DROP TRIGGER fail ON outbox.events").await;
    check(&stack.db, &consumer, &committed, 0).await;

    // One that fails for each statement, whichever its rows are.
    let trigger = "SET outbox.allow_undumped_changes = on; CREATE TRIGGER fail_always AFTER UPDATE ON outbox.events
                   FOR EACH STATEMENT EXECUTE FUNCTION fail_always()";
    run(&stack.db, trigger).await;
    let mark = relay.mark();
    committed.push(emit(&stack.db, "key", 2).await);
    let line = relay.wait_for_log_after(mark, "SQLSTATE 42P01").await;
    assert!(line.contains("a_table_without_its_schema"), "{line}");
    run(&stack.db, "DROP TRIGGER fail_always ON outbox.events").await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}

#[tokio::test]
async fn timeouts_of_the_role_delay_verdicts_and_lose_none() {
    for setting in ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"] {
        let stack = Stack::new().await;
        let consumer = stack.consumer("#").await;
        let role = relay_role(&stack.db).await;
        run(&stack.db, &format!("ALTER ROLE {role} SET {setting} = '200ms'")).await;
        let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
        let load = Load::start(stack.db.url());
        load.goes_on(100).await;
        run(&stack.db, "BEGIN; LOCK TABLE outbox.events IN SHARE MODE").await;
        // What a fault lasts is time: several timeouts, of which nothing tells, as the relay does not obey all of them.
        tokio::time::sleep(Duration::from_secs(1)).await;
        run(&stack.db, "COMMIT").await;
        load.goes_on(100).await;
        let committed = load.stop().await;
        check(&stack.db, &consumer, &committed, 0).await;
        assert_eq!(lost_sessions(&relay), 0, "{setting}");
        drop(relay);
        drop_role(&stack, &role).await;
    }
}

#[tokio::test]
async fn time_limits_of_the_role_that_are_too_short_for_verdicts_end_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    let slow = format!(
        "SET outbox.allow_undumped_changes = on;
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION slow();
         ALTER ROLE {role} SET statement_timeout = '1s';
         DO $$ BEGIN IF current_setting('server_version_num')::int >= 170000 THEN
             ALTER ROLE {role} SET transaction_timeout = '1s'; END IF; END $$"
    );
    run(&stack.db, &slow).await;
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let event = emit(&stack.db, "k", 1).await;
    check(&stack.db, &consumer, &[event], 0).await;
    assert_eq!(lost_sessions(&relay), 0);
    assert!(!relay.log_text().contains("not written"), "{}", relay.log_text());
    drop(relay);
    drop_role(&stack, &role).await;
}

#[tokio::test]
async fn verdicts_of_a_slow_server_are_written_in_time_although_others_update_the_same_rows() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = relay(&stack).start().await;
    let stop = Arc::<AtomicBool>::default();
    let other = stack.db.connect().await;
    let stopped = Arc::clone(&stop);
    // Takes every PENDING row for a moment, again and again.
    let others = tokio::spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            run(&other, "BEGIN; SELECT FROM outbox.events WHERE status = 'PENDING' ORDER BY id FOR UPDATE").await;
            run(&other, "SELECT pg_sleep(0.02); COMMIT").await;
        }
    });
    let mut committed = Vec::new();
    for n in 0..200 {
        committed.push(emit(&stack.db, &format!("key {}", n % 20), n).await);
    }
    wait_until_sent(&stack.db, 200).await;
    stop.store(true, Ordering::Relaxed);
    others.await.unwrap();
    check(&stack.db, &consumer, &committed, 0).await;
}

#[tokio::test]
async fn an_error_of_the_server_does_not_bring_a_payload_into_the_log() {
    let stack = Stack::new().await;
    let relay = relay(&stack).start().await;
    // Its DETAIL has the failing row.
    let check = "SET outbox.allow_undumped_changes = on;
                 ALTER TABLE outbox.events ADD CHECK (NOT (topic = 'held' AND status <> 'PENDING'))";
    run(&stack.db, check).await;
    let emit = r#"SELECT outbox.emit('held', '{"card": "s3cret"}', headers => '{"token": "s3cret"}')"#;
    run(&stack.db, emit).await;
    let line = relay.wait_for_log("put aside").await;
    assert!(line.contains("violates check constraint") && line.contains("23514"), "{line}");
    assert!(!relay.log_text().contains("s3cret"));
}
