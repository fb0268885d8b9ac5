//! What a random run has found, made certain: a transaction that commits while a backlog is worked off page by page.

use harness::{SOON, Stack};
use serde_json::json;
use tokio_postgres::types::Json;
use uuid::Uuid;

/// Emits one event of the key `late`; its number is the payload.
const EMIT: &str = "SELECT outbox.emit('t', $1::jsonb, aggregate_type => 'a', aggregate_id => 'late')";

#[tokio::test]
async fn a_transaction_that_commits_while_a_backlog_is_worked_off_comes_before_the_next_one_of_its_key() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (mut one, other) = (stack.db.connect().await, stack.db.connect().await);
    // Locks the key, as a business row would: the two transactions do not overlap.
    stack.db.batch_execute("CREATE TABLE keys (n int); INSERT INTO keys VALUES (0)").await.unwrap();
    // Making a slot waits for open transactions, so it is made before.
    stack.relay().start().await.kill().await;
    let late = one.transaction().await.unwrap();
    late.batch_execute("UPDATE keys SET n = 1").await.unwrap();
    let first: Uuid = late.query_one(EMIT, &[&Json(json!(1))]).await.unwrap().get(0);
    let backlog = "SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 5000) i";
    other.batch_execute(backlog).await.unwrap();

    let relay = stack.relay().set("max-bytes", "300KiB").set("in-flight", "100").spawn();
    consumer.wait_for(500).await; // it is past the first pages
    late.commit().await.unwrap();
    other.batch_execute("UPDATE keys SET n = 2").await.unwrap();
    let second: Uuid = other.query_one(EMIT, &[&Json(json!(2))]).await.unwrap().get(0);

    consumer.wait_for_within(5002, SOON).await;
    let order: Vec<Uuid> = consumer.ids().into_iter().filter(|id| [first, second].contains(id)).collect();
    assert!(order == [first, second], "the second came before the first");
    drop(relay);
}
