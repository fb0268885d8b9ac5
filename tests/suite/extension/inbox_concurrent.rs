//! The inbox under concurrent consumers, and with `forget()` beside them.

use std::{collections::HashMap, sync::Arc};

use harness::{Database, SOON, eventually};
use tokio::{sync::Mutex, time::timeout};
use tokio_postgres::{Client, error::SqlState};
use uuid::Uuid;

use super::{
    inbox::{MESSAGE, receive, with_inbox},
    refusal, run, value,
};

/// Waits until another session waits for a lock in this query.
async fn waits(db: &Database, query: &str) {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1";
    eventually(&format!("{query} waits"), SOON, async || match db.query_one(sql, &[&query]).await.unwrap().get(0) {
        1_i64 => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn the_second_consumer_of_a_message_waits_for_the_firsts_end() {
    for (level, end, outcome) in [
        ("READ COMMITTED", "COMMIT", Ok(false)),
        ("READ COMMITTED", "ROLLBACK", Ok(true)),
        ("REPEATABLE READ", "COMMIT", Err(SqlState::T_R_SERIALIZATION_FAILURE)),
        ("REPEATABLE READ", "ROLLBACK", Ok(true)),
        ("SERIALIZABLE", "COMMIT", Err(SqlState::T_R_SERIALIZATION_FAILURE)),
        ("SERIALIZABLE", "ROLLBACK", Ok(true)),
    ] {
        let db = with_inbox().await;
        let (first, second) = (db.connect().await, db.connect().await);
        run(&first, &format!("BEGIN; {}", receive(MESSAGE))).await;
        run(&second, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        let waiting = tokio::spawn(async move {
            let row = second.query_one(&receive(MESSAGE), &[]).await;
            row.map(|row| row.get::<_, bool>(0)).map_err(|error| error.code().cloned().unwrap())
        });
        waits(&db, "%inbox.receive%").await;
        run(&first, end).await;
        assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap(), outcome, "{level}, {end}");
    }
}

#[tokio::test]
async fn consumers_of_other_messages_do_not_wait() {
    let db = with_inbox().await;
    let first = db.connect().await;
    run(&first, &format!("BEGIN; {}", receive(MESSAGE))).await;
    let other = receive("0190163d-8694-739b-aea5-966c26f8ad91");
    assert_eq!(timeout(SOON, value(&db, &other)).await.unwrap(), "true");
}

#[tokio::test]
async fn a_snapshot_that_is_older_than_the_message_ends_in_a_serialization_failure() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let db = with_inbox().await;
        let late = db.connect().await;
        run(&late, &format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM pg_class LIMIT 1")).await;
        run(&db, &receive(MESSAGE)).await;
        let error = refusal(&late, &receive(MESSAGE)).await;
        assert_eq!(error.code(), &SqlState::T_R_SERIALIZATION_FAILURE, "{level}: {error}");
        run(&late, &format!("ROLLBACK; BEGIN ISOLATION LEVEL {level}")).await;
        assert_eq!(value(&late, &receive(MESSAGE)).await, "false");
        let other = receive("0190163d-8694-739b-aea5-966c26f8ad91");
        assert_eq!(value(&late, &other).await, "true");
        run(&late, "COMMIT").await;
    }
}

#[tokio::test]
async fn forgetting_waits_for_no_consumer_and_none_waits_for_it() {
    let db = with_inbox().await;
    let (first, second) = (db.connect().await, db.connect().await);
    run(
        &db,
        "INSERT INTO inbox.received (message_id, consumer, received_at)
              SELECT gen_random_uuid(), 'billing', now() - interval '1 year' FROM generate_series(1, 10)",
    )
    .await;
    run(&first, &format!("BEGIN; {}", receive(MESSAGE))).await;
    timeout(SOON, run(&db, "CALL inbox.forget('1 day')")).await.unwrap();
    assert_eq!(value(&db, "SELECT count(*) FROM inbox.received").await, "0");
    // One that locks what is to be forgotten, and is in the middle of it.
    run(
        &second,
        "INSERT INTO inbox.received (message_id, consumer, received_at)
                  SELECT gen_random_uuid(), 'billing', now() - interval '1 year' FROM generate_series(1, 10)",
    )
    .await;
    run(&second, "BEGIN; DELETE FROM inbox.received WHERE received_at < now() - interval '1 day'").await;
    timeout(SOON, run(&db, "CALL inbox.forget('1 day')")).await.unwrap();
    let other = receive("0190163d-8694-739b-aea5-966c26f8ad91");
    assert_eq!(timeout(SOON, value(&db, &other)).await.unwrap(), "true");
    run(&first, "COMMIT").await;
    run(&second, "COMMIT").await;
}

#[tokio::test]
async fn two_calls_share_what_is_to_be_forgotten_whatever_the_sessions_isolation_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let db = with_inbox().await;
        let old = "INSERT INTO inbox.received (message_id, consumer, received_at)
                   SELECT gen_random_uuid(), 'billing', now() - interval '1 year' FROM generate_series(1, 40000)";
        run(&db, old).await;
        let sessions = [db.connect().await, db.connect().await];
        let forget = format!("SET default_transaction_isolation = '{level}'; SET statement_timeout = '60s'");
        for session in &sessions {
            run(session, &forget).await;
        }
        let call = "CALL inbox.forget('1 day')";
        tokio::join!(run(&sessions[0], call), run(&sessions[1], call));
        assert_eq!(value(&db, "SELECT count(*) FROM inbox.received").await, "0", "{level}");
    }
}

/// Consumers receive the same messages in orders of their own, under every isolation level.
#[tokio::test]
async fn each_message_is_new_exactly_once_however_many_receive_it() {
    const MESSAGES: u128 = 300;
    let db = with_inbox().await;
    let news: Arc<Mutex<HashMap<u128, u32>>> = Arc::default();
    let mut consumers = Vec::new();
    for (number, step) in [7, 11, 13, 17, 19, 23].into_iter().enumerate() {
        let session = db.connect().await;
        let news = Arc::clone(&news);
        consumers.push(tokio::spawn(async move {
            let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][number % 3];
            for turn in 0..MESSAGES {
                let message = (turn * step + number as u128 * 50) % MESSAGES; // each once: no step divides their number
                if received(&session, level, Uuid::from_u128(message)).await {
                    *news.lock().await.entry(message).or_default() += 1;
                }
            }
        }));
    }
    for consumer in consumers {
        consumer.await.unwrap();
    }
    let news = news.lock().await;
    assert_eq!(news.len() as u128, MESSAGES);
    assert!(news.values().all(|times| *times == 1), "{news:?}");
}

/// Receives in a transaction, again as often as that fails to be serialized.
async fn received(session: &Client, level: &str, message: Uuid) -> bool {
    loop {
        run(session, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        match session.query_one("SELECT inbox.receive('billing', $1)", &[&message]).await {
            Ok(row) => match session.batch_execute("COMMIT").await {
                Ok(()) => return row.get(0),
                Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}"),
            },
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
                run(session, "ROLLBACK").await;
            }
        }
    }
}
