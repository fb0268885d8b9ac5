//! `outbox.health()`: one row to alert on, which says what is wrong and what it cannot see.

use harness::{Database, Postgres, SOON, Stack, eventually};

use super::{on_both_installations, role, run, text, value};

on_both_installations!(
    without_a_slot_health_says_that_no_relay_is_at_work,
    a_slot_that_nobody_reads_is_reported_with_what_it_keeps,
    what_is_wrong_is_said_worst_first_by_the_thresholds_given,
    a_held_key_does_not_hide_that_other_events_do_not_leave,
    an_attempt_that_is_due_and_not_made_is_a_sign_of_a_stop,
    beyond_ten_thousand_events_behind_held_keys_it_is_not_known_whether_others_leave,
    each_part_of_the_reason_has_its_code_and_health_says_the_same_without_codes,
    what_cannot_be_seen_is_said_and_is_not_called_healthy,
);

/// A column of the health of the test's own slot.
async fn health(db: &Database, column: &str) -> Option<String> {
    text(db, &format!("SELECT {column} FROM outbox.health('{}')", db.name())).await
}

/// A slot of the database's name, which goes with the database.
async fn slot(db: &Database) {
    run(db, &format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", db.name())).await;
}

async fn without_a_slot_health_says_that_no_relay_is_at_work(db: Database) {
    let row =
        db.query_one("SELECT healthy, reason, unseen, slot_active FROM outbox.health('nowhere')", &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<bool>>(0), Some(false));
    assert_eq!(
        row.get::<_, Option<&str>>(1),
        Some("this database has no replication slot \"nowhere\", so no relay is at work")
    );
    assert_eq!((row.get::<_, Option<&str>>(2), row.get::<_, Option<bool>>(3)), (None, None));
    // A slot of another database's is not this database's.
    let other = Postgres::shared().await.empty_database().await;
    slot(&other).await;
    let reason = value(&db, &format!("SELECT reason FROM outbox.health('{}')", other.name())).await;
    assert!(reason.starts_with("this database has no replication slot"), "{reason}");
}

async fn a_slot_that_nobody_reads_is_reported_with_what_it_keeps(db: Database) {
    slot(&db).await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 1000))) FROM generate_series(1, 1000)").await;
    let row = health(
        &db,
        "concat_ws(' ', healthy, slot_active, slot_wal_status, slot_kept_bytes > 1000000,
        slot_behind_bytes BETWEEN 1000000 AND slot_kept_bytes)",
    );
    assert_eq!(row.await.unwrap(), "f f reserved t t");
    assert_eq!(health(&db, "reason").await.unwrap(), format!("no relay reads the slot \"{}\"", db.name()));
    let reason =
        value(&db, &format!("SELECT reason FROM outbox.health('{}', max_kept_bytes => 1000)", db.name())).await;
    assert!(reason.contains("; the slot \"") && reason.contains("\" keeps "), "{reason}");
}

async fn what_is_wrong_is_said_worst_first_by_the_thresholds_given(db: Database) {
    slot(&db).await;
    run(
        &db,
        "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 6) AS n;
         UPDATE outbox.events SET status = 'FAILED' WHERE payload::text IN ('1', '2');
         SELECT outbox.settle(array_agg(id), '{PENDING}', '{nack}', '{60000}') FROM outbox.events WHERE payload::text = '3'",
    )
    .await;
    let said = async |arguments: &str| {
        text(&db, &format!("SELECT reason FROM outbox.health('{}'{arguments})", db.name())).await.unwrap_or_default()
    };
    let unread = format!("no relay reads the slot \"{}\"", db.name());
    assert_eq!(said("").await, format!("{unread}; 2 failed"));
    assert_eq!(said(", max_failed => 2").await, unread);
    assert_eq!(
        said(", max_pending_age => '0', max_retrying_age => '0'").await,
        format!(
            "{unread}; events do not leave: 3 pending, the oldest for 0s; 2 failed; 1 are tried again and again, the oldest for 0s"
        )
    );
    assert_eq!(said(", NULL, NULL, NULL, NULL").await, unread, "no threshold, no complaint");
}

async fn what_cannot_be_seen_is_said_and_is_not_called_healthy(db: Database) {
    let owner = role(&db, "owner").await;
    run(
        &db,
        &format!(
            "REVOKE SELECT ON pg_replication_slots FROM PUBLIC;
             GRANT CREATE ON SCHEMA outbox TO {owner}; GRANT SELECT ON outbox.events TO {owner};
             GRANT EXECUTE ON FUNCTION outbox.count_by_seq(outbox.status) TO {owner};
             ALTER FUNCTION outbox.health(text, interval, interval, bigint, bigint) OWNER TO {owner};
             ALTER FUNCTION outbox.health_with_codes(text, interval, interval, bigint, bigint) OWNER TO {owner}"
        ),
    )
    .await;
    let row = db.query_one("SELECT healthy, reason, unseen FROM outbox.health()", &[]).await.unwrap();
    assert_eq!((row.get::<_, Option<bool>>(0), row.get::<_, Option<&str>>(1)), (None, None));
    let unseen: String = row.get(2);
    assert!(unseen.starts_with("the slot: permission denied"), "{unseen}");
    run(&db, "SELECT outbox.emit('a', '{}'); UPDATE outbox.events SET status = 'FAILED'").await;
    assert_eq!(value(&db, "SELECT concat_ws(' ', healthy, reason) FROM outbox.health()").await, "f 1 failed");
    let back = format!(
        "ALTER FUNCTION outbox.health(text, interval, interval, bigint, bigint) OWNER TO postgres;
         ALTER FUNCTION outbox.health_with_codes(text, interval, interval, bigint, bigint) OWNER TO postgres; DROP OWNED BY {owner}"
    );
    run(&db, &back).await;
}

#[tokio::test]
async fn with_a_relay_at_work_the_outbox_is_healthy_and_without_it_is_not() {
    let stack = Stack::new().await;
    let relay = stack.relay().start().await;
    let said = async |expected: &str| {
        eventually(&format!("health says {expected:?}"), SOON, async || {
            let row = health(&stack.db, "concat_ws(' ', healthy, reason, unseen)").await.unwrap();
            if row.starts_with(expected) { Ok(()) } else { Err(row) }
        })
        .await;
    };
    said("t").await;
    relay.kill().await;
    said("f no relay reads the slot").await;
}

#[tokio::test]
async fn a_standby_says_that_its_primary_has_the_slot() {
    let primary = Postgres::private().start().await;
    let db = primary.database().await;
    run(&db, "SELECT outbox.emit('a', '{}')").await;
    let standby = primary.standby().await;
    let there = harness::Connection::open(&standby.url(db.name())).await;
    eventually("the standby has the event", SOON, async || {
        let row = value(
            &there,
            "SELECT concat_ws(' ', pending, coalesce(healthy::text, 'unknown'), unseen) FROM outbox.health()",
        )
        .await;
        let expected = "1 unknown this server is a standby: the slot and the relay are on its primary";
        if row == expected { Ok(()) } else { Err(row) }
    })
    .await;
}

async fn a_held_key_does_not_hide_that_other_events_do_not_leave(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('t', to_jsonb(n), aggregate_id => 'k') FROM generate_series(1, 3) AS n;
         SELECT outbox.settle(array_agg(id), '{FAILED}', '{nack}', '{NULL}', '{true}') FROM outbox.events WHERE payload::text = '1'",
    )
    .await;
    let said = async |arguments: &str| {
        let query = "SELECT concat_ws(' ', array_to_string(codes[2:2], ''), split_part(reason, '; ', 2)) FROM outbox.health_with_codes";
        value(&db, &format!("{query}('nowhere', max_failed => 9{arguments})")).await
    };
    let at_once = ", max_pending_age => '-1 s'";
    let held = "events_wait 2 wait, the oldest for 0s (held keys: 1)";
    assert_eq!(said(at_once).await, held, "both wait for the first");
    // An event between two attempts and one of an hour's time are no sign of a stop either.
    run(
        &db,
        "SELECT outbox.emit('t', '\"retried\"'), outbox.emit('t', '{}', available_at => now() + interval '1 h');
         SELECT outbox.settle(array_agg(id), '{PENDING}', '{nack}', '{60000}') FROM outbox.events WHERE payload::text = '\"retried\"'",
    )
    .await;
    assert_eq!(said(at_once).await, held);
    for emit in
        ["'t', '{}'", "'t', '{}', aggregate_type => 'other', aggregate_id => 'k'", "'t', '{}', available_at => now()"]
    {
        run(&db, &format!("SELECT outbox.emit({emit})")).await;
        assert_eq!(
            said(at_once).await,
            "events_do_not_leave events do not leave: 3 pending, the oldest without a held key for 0s (held keys: 1)",
            "{emit}"
        );
        assert_eq!(said("").await.trim(), "", "a moment is not too long");
        run(&db, "UPDATE outbox.events SET status = 'SENT' WHERE seq = (SELECT max(seq) FROM outbox.events)").await;
    }
    assert_eq!(said(at_once).await, held);
}

async fn an_attempt_that_is_due_and_not_made_is_a_sign_of_a_stop(db: Database) {
    slot(&db).await;
    let said = async |key: &str, delay: u32| {
        run(
            &db,
            &format!(
                "DELETE FROM outbox.events;
                 SELECT outbox.emit('t', '{{}}', aggregate_id => {key});
                 SELECT outbox.settle(array_agg(id), '{{PENDING}}', '{{nack}}', '{{{delay}}}', '{{true}}') FROM outbox.events"
            ),
        )
        .await;
        let said = "concat_ws(' ', array_to_string(codes[2:], ' '), split_part(reason, '; ', 2))";
        let query = "max_pending_age => '-1 s', max_failed => 9, max_kept_bytes => null";
        value(&db, &format!("SELECT {said} FROM outbox.health_with_codes('{}', {query})", db.name())).await
    };
    for key in ["NULL", "'k'"] {
        assert_eq!(said(key, 60_000).await.trim(), "", "{key}: it is between two attempts");
        let due = "events_do_not_leave events do not leave: an attempt has been due for 0s (retrying: 1)";
        assert_eq!(said(key, 0).await, due, "{key}");
    }
}

async fn beyond_ten_thousand_events_behind_held_keys_it_is_not_known_whether_others_leave(db: Database) {
    slot(&db).await;
    run(
        &db,
        "SELECT outbox.emit('t', to_jsonb(n), aggregate_id => 'k') FROM generate_series(1, 10000) AS n;
         SELECT outbox.settle(array_agg(id), '{FAILED}', '{nack}', '{NULL}', '{true}') FROM outbox.events WHERE payload::text = '1'",
    )
    .await;
    let said = async || {
        let query = "max_pending_age => '-1 s', max_failed => 9, max_kept_bytes => null";
        let said = "array_to_string(codes, ' ') || ': ' || coalesce(unseen, 'all seen')";
        value(&db, &format!("SELECT {said} FROM outbox.health_with_codes('{}', {query})", db.name())).await
    };
    assert_eq!(said().await, "slot_not_read events_wait: all seen", "9,999 wait");
    run(&db, "SELECT outbox.emit('t', '{}')").await;
    assert_eq!(said().await, "slot_not_read events_do_not_leave: all seen", "the last of 10,000 is free");
    run(
        &db,
        "DELETE FROM outbox.events WHERE aggregate_id IS NULL;
         SELECT outbox.emit('t', '{}', aggregate_id => 'k') FROM generate_series(1, 2); SELECT outbox.emit('t', '{}')",
    )
    .await;
    let unseen = "the oldest 10000 events wait behind held keys, and no later ones were looked at";
    assert_eq!(said().await, format!("slot_not_read events_wait: {unseen}"));
}

async fn each_part_of_the_reason_has_its_code_and_health_says_the_same_without_codes(db: Database) {
    let codes = async |slot: &str, arguments: &str| {
        let said = "array_to_string(codes, ' ') || '/' || cardinality(codes) || '/' ||
            cardinality(string_to_array(coalesce(reason, ''), '; '))";
        value(&db, &format!("SELECT {said} FROM outbox.health_with_codes('{slot}'{arguments})")).await
    };
    assert_eq!(codes("nowhere", "").await, "slot_missing/1/1");
    slot(&db).await;
    run(
        &db,
        "SELECT outbox.emit('t', to_jsonb(n), aggregate_id => CASE WHEN n > 2 THEN 'k' END) FROM generate_series(1, 6) AS n;
         UPDATE outbox.events SET status = 'FAILED' WHERE payload::text IN ('1', '2')",
    )
    .await;
    let ages = ", max_pending_age => '-1 s', max_retrying_age => '-1 s', max_kept_bytes => 1";
    assert_eq!(codes(db.name(), ages).await, "slot_not_read events_do_not_leave slot_keeps_wal events_failed/4/4");
    run(
        &db,
        "SELECT outbox.settle(array_agg(id), '{PENDING}', '{nack}', '{60000}', '{true}') FROM outbox.events WHERE payload::text = '3'",
    )
    .await;
    assert_eq!(
        codes(db.name(), ages).await,
        "slot_not_read events_wait slot_keeps_wal events_failed events_retried/5/5"
    );
    let both = format!(
        "SELECT (to_jsonb(h) - '{{oldest_pending,oldest_retrying}}'::text[])::text,
                (to_jsonb(c) - '{{codes,oldest_pending,oldest_retrying}}'::text[])::text
         FROM outbox.health('{0}') AS h, outbox.health_with_codes('{0}') AS c",
        db.name()
    );
    // Other databases of this server write WAL, so its end can move between the two calls.
    eventually("health() says what health_with_codes() says", SOON, async || {
        let row = db.query_one(&both, &[]).await.unwrap();
        let (health, with_codes) = (row.get::<_, String>(0), row.get::<_, String>(1));
        if health == with_codes { Ok(()) } else { Err((health, with_codes)) }
    })
    .await;
}
