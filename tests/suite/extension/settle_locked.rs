//! `outbox.settle` beside others who have rows locked.

use harness::Database;

use super::{
    lock_waits, on_both_installations, refusal, run,
    settle::{SENT, SETTLE_ALL as SETTLE},
    value,
};

on_both_installations!(
    a_batch_waits_for_a_locked_row_and_is_then_written_whole,
    a_row_that_somebody_only_refers_to_is_no_obstacle,
    two_that_settle_the_same_events_do_not_deadlock,
    an_event_is_settled_once_however_often_a_statement_says_so,
    an_empty_batch_changes_nothing_and_needs_no_right_to_write,
);

const ROWS: &str = "SELECT string_agg(concat_ws(' ', payload, status, attempts), ', ' ORDER BY seq) FROM outbox.events";

async fn emit_three(db: &Database) {
    run(db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 3) AS n").await;
}

async fn a_batch_waits_for_a_locked_row_and_is_then_written_whole(db: Database) {
    emit_three(&db).await;
    let other = db.connect().await;
    run(&other, "BEGIN; UPDATE outbox.events SET status = 'FAILED', last_error = 'by hand' WHERE payload::text = '2'")
        .await;
    run(&db, "SET lock_timeout = '1ms'").await;
    assert_eq!(refusal(&db, SETTLE).await.code().code(), "55P03");
    assert_eq!(value(&db, SENT).await, "0", "all or nothing");
    run(&db, "RESET lock_timeout").await;

    let end_it = async {
        lock_waits(&other, 1).await;
        run(&other, "COMMIT").await;
    };
    tokio::join!(run(&db, SETTLE), end_it);
    assert_eq!(value(&db, ROWS).await, "1 SENT 1, 2 FAILED 1, 3 SENT 1");
}

async fn a_row_that_somebody_only_refers_to_is_no_obstacle(db: Database) {
    emit_three(&db).await;
    let other = db.connect().await;
    run(&other, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '2' FOR KEY SHARE").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "3");
    run(&other, "COMMIT").await;
}

async fn two_that_settle_the_same_events_do_not_deadlock(db: Database) {
    emit_three(&db).await;
    run(&db, "SELECT outbox.settle(ARRAY[id], '{PENDING}', '{nack}', '{0}', '{true}') FROM outbox.events WHERE payload::text = '1'").await;
    let (locker, one, two) = tokio::join!(db.connect(), db.connect(), db.connect());
    run(&locker, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '1' FOR UPDATE").await;
    let settle = |statuses: &str| {
        format!(
            "SELECT outbox.settle((SELECT array_agg(id ORDER BY payload::text) FROM outbox.events), '{{{statuses}}}', '{{x,x,x}}')"
        )
    };
    // The first wants the held event first, by a statement; the second is to wait there, too, before it has taken
    // others.
    let (with_failed, all_sent) = (settle("FAILED,FAILED,SENT"), settle("SENT,SENT,SENT"));
    let then = async {
        lock_waits(&db, 2).await;
        run(&locker, "COMMIT").await;
    };
    tokio::join!(run(&one, &with_failed), run(&two, &all_sent), then);
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'").await, "0");
}

async fn an_event_is_settled_once_however_often_a_statement_says_so(db: Database) {
    emit_three(&db).await;
    run(&db, "CREATE TABLE batch AS SELECT array_agg(id) AS ids FROM outbox.events").await;
    for function in ["outbox.settle_sent(ids)", "outbox.settle(ids, '{SENT,SENT,SENT}', '{NULL,NULL,NULL}')"] {
        run(&db, &format!("SELECT {function}, {function}, n FROM batch, generate_series(1, 3) AS n")).await;
    }
    assert_eq!(value(&db, ROWS).await, "1 SENT 1, 2 SENT 1, 3 SENT 1");
}

async fn an_empty_batch_changes_nothing_and_needs_no_right_to_write(db: Database) {
    run(&db, "BEGIN READ ONLY; SELECT outbox.settle('{}', '{}', '{}'); COMMIT").await;
}
