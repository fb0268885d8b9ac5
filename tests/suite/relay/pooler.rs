//! A real PgBouncer in transaction mode: applications emit through it, and the relay says that it cannot work through
//! it.

use harness::{PgBouncer, SOON, Stack};
use serde_json::json;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use super::{startup::refused, wait_for_counts};

async fn stack_with_a_role() -> (Stack, String) {
    let stack = Stack::new().await;
    let role = format!("{}_shop", stack.db.name());
    let setup = format!(
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, name text); CREATE ROLE {role} LOGIN;
         GRANT SELECT, INSERT ON orders TO {role}; SELECT outbox.grant_emit('{role}')"
    );
    stack.db.batch_execute(&setup).await.unwrap();
    (stack, role)
}

#[tokio::test]
async fn events_emitted_through_a_pooler_are_part_of_their_transactions_and_arrive_in_order() {
    let (stack, role) = stack_with_a_role().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    let pooler = PgBouncer::before(&stack.db, &[&role]).await;
    let clients = [pooler.connect_as(&role).await, pooler.connect_as(&role).await, pooler.connect_as(&role).await];
    for number in 0..30 {
        let end = if number % 5 == 4 { "ROLLBACK" } else { "COMMIT" };
        let transaction = format!(
            "BEGIN; INSERT INTO orders (name) VALUES ('{number}');
             SELECT outbox.emit('orders.created', '{number}'::jsonb, aggregate_type => 'order', aggregate_id => 'one'); {end}"
        );
        clients[number % 3].batch_execute(&transaction).await.unwrap();
    }
    wait_for_counts(&stack.db, (0, 24, 0), SOON).await;
    let numbers: Vec<_> = consumer.wait_for(24).await.iter().map(harness::Delivery::json).collect();
    assert_eq!(numbers, (0..30).filter(|number| number % 5 != 4).map(|number| json!(number)).collect::<Vec<_>>());
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_setting_of_one_clients_transaction_is_not_in_the_next_clients() {
    let (stack, role) = stack_with_a_role().await;
    let pooler = PgBouncer::before(&stack.db, &[&role]).await;
    let (first, second) = (pooler.connect_as(&role).await, pooler.connect_as(&role).await);
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let with_settings = format!(
        "BEGIN; SET LOCAL outbox.correlation_id = 'request'; SET LOCAL outbox.traceparent = '{traceparent}';
         SET LOCAL outbox.max_payload_bytes = '2kB'; SELECT outbox.emit('first', '{{}}'); COMMIT"
    );
    for _ in 0..3 {
        first.batch_execute(&with_settings).await.unwrap();
        second.batch_execute("SELECT outbox.emit('second', to_jsonb(repeat('x', 3000)))").await.unwrap();
    }
    let carried = "SELECT string_agg(DISTINCT concat_ws(' ', topic, correlation_id, headers ->> 'traceparent'), ', ') FROM outbox.events";
    let carried: String = stack.db.query_one(carried, &[]).await.unwrap().get(0);
    assert_eq!(carried, format!("first request {traceparent}, second"));
    let sessions =
        "SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1";
    let sessions: i64 = stack.db.query_one(sessions, &[&role]).await.unwrap().get(0);
    assert_eq!(sessions, 1, "both had the same session of the server");
}

#[tokio::test]
async fn parameters_need_no_named_statement() {
    let (stack, role) = stack_with_a_role().await;
    let pooler = PgBouncer::before(&stack.db, &[&role]).await;
    let clients = [pooler.connect_as(&role).await, pooler.connect_as(&role).await];
    let mut ids = Vec::new();
    for number in 0..20 {
        let emit = "SELECT outbox.emit($1, $2, aggregate_type => 'order', aggregate_id => $3)";
        let (payload, key) = (Json(json!({ "n": number })), number.to_string());
        let rows = clients[number % 2]
            .query_typed(emit, &[(&"orders.created", Type::TEXT), (&payload, Type::JSONB), (&key, Type::TEXT)])
            .await
            .unwrap();
        ids.push(rows[0].get::<_, Uuid>(0));
    }
    let found: i64 =
        stack.db.query_one("SELECT count(*) FROM outbox.events WHERE id = ANY ($1)", &[&ids]).await.unwrap().get(0);
    assert_eq!(found, 20);
}

#[tokio::test]
async fn a_relay_that_is_pointed_at_a_pooler_says_so_at_once() {
    let stack = Stack::new().await;
    let pooler = PgBouncer::before(&stack.db, &[]).await;
    if PgBouncer::passes_replication() {
        return println!("this PgBouncer lets the relay through");
    }
    let relay = || stack.relay().set("database-url", pooler.url());
    refused(relay(), 10, &["replication", "pooler", "DATABASE_URL"]).await;
    let (status, said) = relay().arguments(&["check"]).finish().await;
    assert!(!status.success() && said.contains("pooler"), "{said}");
    // It refuses the option of the start-up message that pins the search path; sessions are opened without it then.
    let (_, said) = relay().arguments(&["events"]).finish().await;
    assert!(!said.contains("startup parameter"), "{said}");
}
