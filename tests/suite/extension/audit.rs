//! `outbox.audit`: who has replayed or released what.

use harness::Database;

use super::{on_both_installations, refusal, role, run, text, value};

on_both_installations!(
    each_replay_and_release_writes_one_row_that_says_who_and_what,
    what_changes_nothing_or_is_rolled_back_writes_no_row,
    an_operator_cannot_forge_or_remove_a_row,
    an_operators_name_that_is_no_name_is_refused,
    the_audit_is_dumped_with_the_events,
);

const ROWS: &str = "SELECT string_agg(concat_ws(' ', action, filter - 'id', events, who, role, program), E'\\n' ORDER BY id) FROM outbox.audit";

/// Four failed events, the first of which holds its key.
const FAILED: &str = "SELECT outbox.emit('t', to_jsonb(n), aggregate_id => 'k') FROM generate_series(1, 4) AS n;
    SELECT outbox.settle(array_agg(id), '{FAILED,FAILED,FAILED,FAILED}', '{nack,nack,nack,nack}', '{}', ARRAY[true,false,false,false])
    FROM (SELECT id FROM outbox.events ORDER BY seq) AS e";

async fn each_replay_and_release_writes_one_row_that_says_who_and_what(db: Database) {
    run(&db, FAILED).await;
    let operator = role(&db, "operator").await;
    run(&db, &format!("SELECT outbox.grant_operate('{operator}')")).await;
    let session = db.connect_as(&operator).await;
    run(
        &session,
        "SET application_name = 'psql'; SET outbox.operator = 'Ada';
         SELECT outbox.release(id) FROM outbox.events WHERE payload::text = '1';
         SELECT outbox.replay(id) FROM outbox.events WHERE payload::text = '1';
         RESET outbox.operator;
         SELECT outbox.replay_many(topic => 't', error_like => 'nack%', max_events => 2)",
    )
    .await;
    let filter = r#"{"topic": "t", "status": "FAILED", "error_like": "nack%", "max_events": 2}"#;
    assert_eq!(
        value(&db, ROWS).await,
        format!(
            "release {{}} 1 Ada {operator} psql\nreplay {{}} 1 Ada {operator} psql\nreplay {filter} 2 {operator} psql"
        )
    );
    let ids = "SELECT count(*) FROM outbox.audit AS a JOIN outbox.events AS e ON e.id::text = a.filter ->> 'id' WHERE e.payload::text = '1'";
    assert_eq!(value(&session, ids).await, "2");
    run(&db, &format!("DELETE FROM outbox.audit; DROP OWNED BY {operator}")).await;
}

async fn what_changes_nothing_or_is_rolled_back_writes_no_row(db: Database) {
    run(&db, FAILED).await;
    run(
        &db,
        "SELECT outbox.replay(gen_random_uuid()), outbox.release(gen_random_uuid()), outbox.replay_many(topic => 'other');
         BEGIN; SELECT outbox.replay_many(topic => 't'); ROLLBACK",
    )
    .await;
    assert_eq!(text(&db, ROWS).await, None);
}

async fn an_operator_cannot_forge_or_remove_a_row(db: Database) {
    let (operator, monitor) = (role(&db, "operator").await, role(&db, "monitor").await);
    run(&db, &format!("SELECT outbox.grant_operate('{operator}'), outbox.grant_monitor('{monitor}')")).await;
    for role in [&operator, &monitor] {
        let session = db.connect_as(role).await;
        run(&session, "SELECT * FROM outbox.audit").await;
        for forbidden in [
            "INSERT INTO outbox.audit (action, filter, events) VALUES ('replay', '{}', 1)",
            "UPDATE outbox.audit SET who = 'another'",
            "DELETE FROM outbox.audit",
            "SELECT outbox.note_action('replay', '{}', 1)",
        ] {
            assert_eq!(refusal(&session, forbidden).await.code().code(), "42501", "{forbidden}");
        }
    }
}

async fn an_operators_name_that_is_no_name_is_refused(db: Database) {
    run(&db, FAILED).await;
    run(&db, "SELECT set_config('outbox.operator', repeat('x', 256), false)").await;
    assert_eq!(refusal(&db, "SELECT outbox.replay_many(topic => 't')").await.code().code(), "22001");
    run(&db, "SELECT set_config('outbox.operator', repeat('x', 255), false); SELECT outbox.replay_many(topic => 't')")
        .await;
}

async fn the_audit_is_dumped_with_the_events(db: Database) {
    run(&db, FAILED).await;
    run(&db, "SELECT outbox.replay_many(topic => 't')").await;
    let copy = super::dump::copy(&db).await;
    assert_eq!(value(&copy, ROWS).await, value(&db, ROWS).await);
    run(&copy, "UPDATE outbox.events SET status = 'FAILED'; SELECT outbox.replay_many(topic => 't')").await;
    assert_eq!(value(&copy, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM outbox.audit").await, "1 2");
}
