//! Retention: what is finished and old is deleted, and nothing else.

use harness::Database;

use super::{on_both_installations, refusal, role, run, text, value};

on_both_installations!(
    what_is_old_is_deleted_and_nothing_else,
    failed_events_have_a_time_of_their_own_and_are_kept_without_one,
    an_event_that_holds_its_key_is_kept_however_old_and_counted,
    a_row_that_a_foreign_key_keeps_is_told_of_and_keeps_no_other,
    a_trigger_that_refuses_a_deletion_keeps_that_row_alone,
    a_trigger_that_passes_over_a_deletion_is_told_of,
    what_was_restored_without_the_time_of_its_verdict_is_as_old_as_the_event,
    a_time_without_an_end_keeps_an_event_and_stops_nothing,
    a_row_that_someone_else_has_locked_is_passed_over_without_a_long_wait,
    a_step_in_an_open_transaction_keeps_nobody_from_emitting_settling_and_replaying,
    each_page_is_looked_at_once_whatever_the_size_of_the_steps,
    the_oldest_that_is_left_is_told,
    maintain_commits_each_step_and_says_what_it_did,
    maintain_waits_for_a_table_that_is_locked_for_a_while,
    maintain_wants_to_know_how_long_and_refuses_nonsense,
    a_role_with_the_grant_may_and_one_without_it_may_not,
);

/// Finished a hundred days ago: SENT 1 to 3, FAILED 4, and FAILED 5 that holds its key. PENDING: 6. Finished now: SENT
/// 7, FAILED 8.
async fn history(db: &Database) {
    run(db, "SELECT outbox.emit('t', to_jsonb(n), aggregate_type => 'a', aggregate_id => n::text) FROM generate_series(1, 8) AS n").await;
    run(db, "SET session_replication_role = replica").await;
    run(
        db,
        "UPDATE outbox.events SET status = CASE WHEN payload::text::int IN (4, 5, 8) THEN 'FAILED' ELSE 'SENT' END::outbox.status,
             attempts = 1, last_attempted_at = now(), holds_key = payload::text = '5',
             processed_at = now() - CASE WHEN payload::text::int < 6 THEN interval '100 days' ELSE '0' END
         WHERE payload::text <> '6'",
    )
    .await;
    run(db, "RESET session_replication_role").await;
}

async fn left(db: &Database) -> String {
    value(db, "SELECT coalesce(string_agg(payload::text, ' ' ORDER BY seq), 'nothing') FROM outbox.events").await
}

/// One step over the whole table: what was deleted, and what was old and was not, by the reason.
async fn step(db: &Database, sent: &str, failed: &str) -> String {
    let step = format!(
        "SELECT concat_ws(' ', deleted, 'deleted', holding, 'holding', locked, 'locked', refused, 'refused')
         FROM outbox.delete_finished(now() - {sent}::interval, now() - {failed}::interval, 0, 1000)"
    );
    value(db, &step).await
}

async fn what_is_old_is_deleted_and_nothing_else(db: Database) {
    history(&db).await;
    assert_eq!(step(&db, "'200 days'", "NULL").await, "0 deleted 0 holding 0 locked 0 refused");
    assert_eq!(step(&db, "'30 days'", "NULL").await, "3 deleted 0 holding 0 locked 0 refused");
    assert_eq!(left(&db).await, "4 5 6 7 8");
    assert_eq!(step(&db, "'30 days'", "NULL").await, "0 deleted 0 holding 0 locked 0 refused");
    assert_eq!(step(&db, "NULL", "NULL").await, "0 deleted 0 holding 0 locked 0 refused");
}

async fn failed_events_have_a_time_of_their_own_and_are_kept_without_one(db: Database) {
    history(&db).await;
    assert_eq!(step(&db, "NULL", "'90 days'").await, "1 deleted 1 holding 0 locked 0 refused");
    assert_eq!(left(&db).await, "1 2 3 5 6 7 8");
}

async fn an_event_that_holds_its_key_is_kept_however_old_and_counted(db: Database) {
    history(&db).await;
    assert_eq!(step(&db, "'0'", "'0'").await, "6 deleted 1 holding 0 locked 0 refused");
    assert_eq!(left(&db).await, "5 6");
    run(&db, "SELECT outbox.release(id) FROM outbox.events WHERE payload::text = '5'").await;
    assert_eq!(step(&db, "NULL", "'90 days'").await, "1 deleted 0 holding 0 locked 0 refused");
}

async fn a_row_that_a_foreign_key_keeps_is_told_of_and_keeps_no_other(db: Database) {
    for check in ["", "DEFERRABLE INITIALLY DEFERRED"] {
        run(&db, "DELETE FROM outbox.events").await;
        history(&db).await;
        run(&db, &format!("CREATE TABLE mine (event uuid REFERENCES outbox.events {check})")).await;
        run(&db, "INSERT INTO mine SELECT id FROM outbox.events WHERE payload::text = '2'").await;
        let told = value(
            &db,
            "SELECT concat_ws(' ', deleted, refused, (SELECT payload FROM outbox.events AS e WHERE e.id = refused_id), refused_because)
             FROM outbox.delete_finished(now() - interval '30 days', NULL, 0, 1000)",
        )
        .await;
        assert!(told.starts_with("2 1 2 ") && told.contains("violates foreign key constraint"), "{told}");
        assert_eq!(left(&db).await, "2 4 5 6 7 8");
        run(&db, "DROP TABLE mine").await;
    }
}

async fn a_trigger_that_refuses_a_deletion_keeps_that_row_alone(db: Database) {
    history(&db).await;
    run(
        &db,
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF old.payload::text = '1' THEN RAISE 'this one stays'; END IF; RETURN old; END $$;
         CREATE TRIGGER keep BEFORE DELETE ON outbox.events FOR EACH ROW EXECUTE FUNCTION keep()",
    )
    .await;
    assert_eq!(step(&db, "'30 days'", "NULL").await, "2 deleted 0 holding 0 locked 1 refused");
    assert_eq!(left(&db).await, "1 4 5 6 7 8");
}

async fn a_trigger_that_passes_over_a_deletion_is_told_of(db: Database) {
    history(&db).await;
    run(
        &db,
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF old.payload::text = '1' THEN RETURN NULL; END IF; RETURN old; END $$;
         CREATE TRIGGER keep BEFORE DELETE ON outbox.events FOR EACH ROW EXECUTE FUNCTION keep()",
    )
    .await;
    let told = "SELECT concat_ws(' ', deleted, locked, refused, refused_because, refused_id = (SELECT id FROM outbox.events WHERE payload::text = '1'))
                FROM outbox.delete_finished(now() - interval '30 days', NULL, 0, 1000)";
    assert_eq!(value(&db, told).await, "2 0 1 a trigger on outbox.events returned null t");
    let other = db.connect().await; // so that rows are tried one by one
    run(&db, "UPDATE outbox.events SET status = 'SENT' WHERE payload::text = '6'").await;
    run(&other, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '6' FOR UPDATE").await;
    assert_eq!(step(&db, "'-1 day'", "NULL").await, "1 deleted 0 holding 1 locked 1 refused");
}

async fn what_was_restored_without_the_time_of_its_verdict_is_as_old_as_the_event(db: Database) {
    run(
        &db,
        "INSERT INTO outbox.events (topic, payload, status, created_at)
         VALUES ('t', '1', 'SENT', now() - interval '100 days'), ('t', '2', 'SENT', now() - interval '1 day')",
    )
    .await;
    assert_eq!(step(&db, "'30 days'", "NULL").await, "1 deleted 0 holding 0 locked 0 refused");
    assert_eq!(left(&db).await, "2");
}

async fn a_time_without_an_end_keeps_an_event_and_stops_nothing(db: Database) {
    history(&db).await;
    run(&db, "SET session_replication_role = replica").await;
    run(&db, "UPDATE outbox.events SET processed_at = 'infinity' WHERE payload::text = '1'").await;
    run(&db, "UPDATE outbox.events SET processed_at = '-infinity' WHERE payload::text = '2'").await;
    run(&db, "RESET session_replication_role").await;
    let ages = "SELECT concat_ws(' ', extract(day FROM now() - oldest_sent), extract(day FROM now() - oldest_failed))
                FROM outbox.delete_finished(now() - interval '30 days', now() - interval '30 days', 0, 1000)";
    assert_eq!(value(&db, ages).await, "0 0");
    assert_eq!(left(&db).await, "1 5 6 7 8");
}

async fn a_row_that_someone_else_has_locked_is_passed_over_without_a_long_wait(db: Database) {
    history(&db).await;
    let other = db.connect().await;
    run(&other, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '2' FOR UPDATE").await;
    assert_eq!(step(&db, "'30 days'", "NULL").await, "2 deleted 0 holding 1 locked 0 refused");
    run(&other, "ROLLBACK").await;
    assert_eq!(step(&db, "'30 days'", "NULL").await, "1 deleted 0 holding 0 locked 0 refused");
}

async fn a_step_in_an_open_transaction_keeps_nobody_from_emitting_settling_and_replaying(db: Database) {
    history(&db).await;
    let other = db.connect().await;
    run(&db, "BEGIN").await;
    assert_eq!(step(&db, "'30 days'", "NULL").await, "3 deleted 0 holding 0 locked 0 refused");
    run(&other, "SET lock_timeout = '2s'").await;
    run(&other, "SELECT outbox.emit('t', '9')").await;
    run(&other, "INSERT INTO outbox.events (topic, payload) VALUES ('t', '10')").await;
    run(&other, "SELECT outbox.settle(array_agg(id), '{SENT}', '{NULL}') FROM outbox.events WHERE payload::text = '9'")
        .await;
    assert_eq!(value(&other, "SELECT outbox.replay(id) FROM outbox.events WHERE payload::text = '4'").await, "true");
    run(&db, "COMMIT").await;
    assert_eq!(left(&db).await, "4 5 6 7 8 9 10");
}

async fn each_page_is_looked_at_once_whatever_the_size_of_the_steps(db: Database) {
    run(&db, "SELECT outbox.emit('t', to_jsonb(repeat('x', 500))) FROM generate_series(1, 500)").await;
    run(&db, "SELECT outbox.settle(array_agg(id), array_agg('SENT'::outbox.status), array_agg(NULL::text)) FROM outbox.events").await;
    let pages: i64 =
        value(&db, "SELECT table_pages FROM outbox.delete_finished(NULL, NULL, 0, 1)").await.parse().unwrap();
    assert!(pages > 20, "{pages}");
    let mut deleted = 0;
    for from in (0..pages).step_by(7) {
        let step = format!("SELECT deleted FROM outbox.delete_finished(now() + interval '1 hour', NULL, {from}, 7)");
        deleted += value(&db, &step).await.parse::<i64>().unwrap();
    }
    assert_eq!((deleted, left(&db).await), (500, "nothing".to_owned()));
    let behind = "SELECT deleted FROM outbox.delete_finished(now(), now(), 4294967295, 2147483647)";
    assert_eq!(value(&db, behind).await, "0");
}

async fn the_oldest_that_is_left_is_told(db: Database) {
    history(&db).await;
    let ages = |sent: &str| {
        format!(
            "SELECT concat_ws(' ', extract(day FROM now() - oldest_sent), extract(day FROM now() - oldest_failed))
             FROM outbox.delete_finished(now() - {sent}::interval, NULL, 0, 1000)"
        )
    };
    assert_eq!(value(&db, &ages("NULL")).await, "100 100");
    assert_eq!(value(&db, &ages("'30 days'")).await, "0 100");
    run(&db, "DELETE FROM outbox.events WHERE payload::text <> '5'").await;
    let nothing = "SELECT coalesce(oldest_sent, oldest_failed) FROM outbox.delete_finished(NULL, NULL, 0, 1000)";
    assert_eq!(text(&db, nothing).await, None, "what holds its key goes by no time");
}

async fn maintain_commits_each_step_and_says_what_it_did(db: Database) {
    history(&db).await;
    run(&db, "CALL outbox.maintain('30 days', '30 days')").await;
    assert_eq!(left(&db).await, "5 6 7 8");
    let refused = refusal(&db, "BEGIN; CALL outbox.maintain('1 day')").await;
    assert_eq!(refused.code().code(), "2D000");
    run(&db, "ROLLBACK").await;
    // As whoever has a search_path of his own, with traps in it.
    run(
        &db,
        "CREATE SCHEMA trap; CREATE FUNCTION trap.lt(interval, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE OPERATOR trap.< (LEFTARG = interval, RIGHTARG = text, FUNCTION = trap.lt); SET search_path = trap, pg_catalog",
    )
    .await;
    run(&db, "CALL outbox.maintain('0')").await;
    run(&db, "RESET search_path").await;
    assert_eq!(left(&db).await, "5 6 8");
}

async fn maintain_waits_for_a_table_that_is_locked_for_a_while(db: Database) {
    history(&db).await;
    let (other, deleter) = (db.connect().await, db.connect().await);
    run(&other, "BEGIN; LOCK TABLE outbox.events").await;
    let since = "SELECT coalesce(max(waitstart)::text, '') FROM pg_locks WHERE relation = 'outbox.events'::regclass AND NOT granted";
    let let_in_later = async || {
        let mut waits = std::collections::BTreeSet::new();
        harness::eventually("maintain() waits for the third time", harness::SOON, async || {
            waits.extend(Some(value(&db, since).await).filter(|since| !since.is_empty()));
            if waits.len() > 2 { Ok(()) } else { Err(waits.clone()) }
        })
        .await;
        run(&other, "COMMIT").await;
    };
    tokio::join!(run(&deleter, "CALL outbox.maintain('30 days')"), let_in_later());
    assert_eq!(left(&db).await, "4 5 6 7 8");
}

async fn maintain_wants_to_know_how_long_and_refuses_nonsense(db: Database) {
    for call in ["", "NULL, NULL", "'-1 day'", "'1 day', '-1 s'"] {
        let refused = refusal(&db, &format!("CALL outbox.maintain({call})")).await;
        assert_eq!(refused.code().code(), "22023", "{call}: {refused:?}");
        assert!(refused.hint().unwrap().contains("CALL outbox.maintain(retention => '30 days')"), "{refused:?}");
    }
    for place in ["NULL, 1", "0, NULL", "-1, 1", "0, 0", "4294967296, 1"] {
        let refused = refusal(&db, &format!("SELECT outbox.delete_finished(now(), now(), {place})")).await;
        assert_eq!(refused.code().code(), "22023", "{place}: {refused:?}");
    }
}

async fn a_role_with_the_grant_may_and_one_without_it_may_not(db: Database) {
    history(&db).await;
    let role = role(&db, "deleter").await;
    run(&db, &format!("SET ROLE {role}")).await;
    assert_eq!(refusal(&db, "CALL outbox.maintain('30 days')").await.code().code(), "42501");
    run(&db, &format!("RESET ROLE; SELECT outbox.grant_maintain('{role}'); SET ROLE {role}")).await;
    run(&db, "CALL outbox.maintain('30 days')").await;
    assert_eq!(refusal(&db, "DELETE FROM outbox.events").await.code().code(), "42501");
    assert_eq!(refusal(&db, "SELECT FROM outbox.events").await.code().code(), "42501");
    run(&db, "RESET ROLE").await;
    assert_eq!(left(&db).await, "4 5 6 7 8");
}
