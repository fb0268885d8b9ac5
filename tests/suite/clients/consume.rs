//! The examples that consume: each message has its effect once, however often it arrives.

use std::process::{Child, Command};

use harness::{Postgres, SOON, Stack, eventually, places::checkout};
use serde_json::json;

use super::{clients, go, java, node, python};

#[tokio::test]
async fn a_python_program_consumes_with_pika() {
    let Some(workshop) = python().await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("consume.py");
    bills_once(python).await;
}

#[tokio::test]
async fn a_node_program_consumes_with_amqplib() {
    let Some(workshop) = node().await else {
        return;
    };
    let mut node = workshop.command("node");
    node.arg("consume.mjs");
    bills_once(node).await;
}

#[tokio::test]
async fn a_go_program_consumes_with_amqp091() {
    let Some(workshop) = go().await else {
        return;
    };
    bills_once(workshop.command("built/consume")).await;
}

#[tokio::test]
async fn a_java_program_consumes_with_rabbitmqs_client() {
    let Some(workshop) = java().await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "Consume.java"]);
    bills_once(java).await;
}

/// Runs the example beside a relay that delivers some messages, and delivers them again.
async fn bills_once(mut example: Command) {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    let vhost = stack.vhost.name();
    stack.vhost.api("PUT", &format!("/api/queues/{vhost}/billing"), Some(&json!({ "durable": true }))).await;
    let binding = json!({ "routing_key": "orders.*" });
    stack.vhost.api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/billing"), Some(&binding)).await;
    let relay = stack.relay().start().await;

    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", stack.db.name(), "--file"]).arg(checkout().join("sql/inbox.sql"));
    assert!(psql.status().unwrap().success());
    let invoices = std::fs::read_to_string(clients().join("invoices.sql")).unwrap();
    let role = format!("{}_billing", stack.db.name());
    let setup = format!(
        "{invoices} CREATE ROLE {role} LOGIN; GRANT INSERT ON invoices TO {role}; SELECT inbox.grant_receive('{role}')"
    );
    stack.db.batch_execute(&setup).await.unwrap();
    example.env("DATABASE_URL", stack.db.url_as(&role)).env("AMQP_URL", stack.vhost.url());
    let _example = Running(example.spawn().unwrap());

    let emit = "SELECT outbox.emit('orders.created', jsonb_build_object('id', n, 'customer', 'Ada', 'total', 42.5),
                                   aggregate_type => 'order', aggregate_id => 'all')
                FROM generate_series($1::int, $2) AS n";
    stack.db.query(emit, &[&1, &3]).await.unwrap();
    invoices_are(&stack, "1 2 3").await;
    assert_eq!(stack.db.execute("SELECT outbox.replay(id) FROM outbox.events", &[]).await.unwrap(), 3);
    // It comes behind the replays.
    stack.db.query(emit, &[&4, &4]).await.unwrap();
    invoices_are(&stack, "1 2 3 4").await;
    assert!(relay.stop().await.success());
}

async fn invoices_are(stack: &Stack, wanted: &str) {
    let sql =
        "SELECT coalesce(string_agg(order_id::text, ' ' ORDER BY order_id), '') FROM invoices WHERE total = 42.50";
    eventually("the invoices are written", SOON, async || {
        let found: String = stack.db.query_one(sql, &[]).await.unwrap().get(0);
        if found == wanted { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Consumers have no end of their own.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
