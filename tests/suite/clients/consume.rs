//! The examples that consume: each message has its effect once, however often it arrives.

use std::process::{Child, Command};

use harness::{Database, Kafka, Listener, Postgres, RelayBuilder, SOON, Stack, eventually, places::checkout};
use serde_json::json;

use super::{clients, go, java, node, python};
use crate::not_run::not_run_outside_ci;

#[tokio::test]
async fn a_python_program_consumes_with_pika() {
    let Some(workshop) = python().await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("consume.py");
    bills_once_from_rabbitmq(python).await;
}

#[tokio::test]
async fn a_node_program_consumes_with_amqplib() {
    let Some(workshop) = node().await else {
        return;
    };
    let mut node = workshop.command("node");
    node.arg("consume.mjs");
    bills_once_from_rabbitmq(node).await;
}

#[tokio::test]
async fn a_go_program_consumes_with_amqp091() {
    let Some(workshop) = go().await else {
        return;
    };
    bills_once_from_rabbitmq(workshop.command("built/consume")).await;
}

#[tokio::test]
async fn a_java_program_consumes_with_rabbitmqs_client() {
    let Some(workshop) = java().await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "Consume.java"]);
    bills_once_from_rabbitmq(java).await;
}

#[tokio::test]
async fn a_python_program_consumes_with_confluent_kafka() {
    let Some(kafka) = kafka().await else { return };
    let Some(workshop) = python().await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("consume_kafka.py");
    bills_once_from_kafka(python, kafka).await;
}

#[tokio::test]
async fn a_java_program_consumes_with_kafkas_client() {
    let Some(kafka) = kafka().await else { return };
    let Some(workshop) = java().await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "ConsumeKafka.java"]);
    bills_once_from_kafka(java, kafka).await;
}

async fn kafka() -> Option<Kafka> {
    if let Some(why) = Kafka::missing() {
        not_run_outside_ci("kafka", why);
        return None;
    }
    let kafka = Kafka::private().start().await;
    kafka.create_topic("orders.created", 3, &[]).await;
    Some(kafka)
}

async fn bills_once_from_kafka(mut example: Command, kafka: Kafka) {
    let db = Postgres::shared().await.database().await;
    let addresses = kafka.addresses(Listener::Plain);
    example.env("KAFKA_BROKERS", &addresses);
    let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name());
    bills_once(&db, relay.set("kafka-url", &format!("kafka://{addresses}")), example).await;
}

async fn bills_once_from_rabbitmq(mut example: Command) {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    let vhost = stack.vhost.name();
    stack.vhost.api("PUT", &format!("/api/queues/{vhost}/billing"), Some(&json!({ "durable": true }))).await;
    let binding = json!({ "routing_key": "orders.*" });
    stack.vhost.api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/billing"), Some(&binding)).await;
    example.env("AMQP_URL", stack.vhost.url());
    bills_once(&stack.db, stack.relay(), example).await;
}

/// Runs the example beside a relay that delivers some messages, and delivers them again.
async fn bills_once(db: &Database, relay: RelayBuilder, mut example: Command) {
    let relay = relay.start().await;
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", db.name(), "--file"]).arg(checkout().join("sql/inbox.sql"));
    assert!(psql.status().unwrap().success());
    let invoices = std::fs::read_to_string(clients().join("invoices.sql")).unwrap();
    let role = format!("{}_billing", db.name());
    let setup = format!(
        "{invoices} CREATE ROLE {role} LOGIN; GRANT INSERT ON invoices TO {role}; SELECT inbox.grant_receive('{role}')"
    );
    db.batch_execute(&setup).await.unwrap();
    example.env("DATABASE_URL", db.url_as(&role));
    let _example = Running(example.spawn().unwrap());

    let emit = "SELECT outbox.emit('orders.created', jsonb_build_object('id', n, 'customer', 'Ada', 'total', 42.5),
                                   aggregate_type => 'order', aggregate_id => 'all')
                FROM generate_series($1::int, $2) AS n";
    db.query(emit, &[&1, &3]).await.unwrap();
    invoices_are(db, "1 2 3").await;
    assert_eq!(db.execute("SELECT outbox.replay(id) FROM outbox.events", &[]).await.unwrap(), 3);
    // It comes behind the replays.
    db.query(emit, &[&4, &4]).await.unwrap();
    invoices_are(db, "1 2 3 4").await;
    assert!(relay.stop().await.success());
}

async fn invoices_are(db: &Database, wanted: &str) {
    let sql =
        "SELECT coalesce(string_agg(order_id::text, ' ' ORDER BY order_id), '') FROM invoices WHERE total = 42.50";
    eventually("the invoices are written", SOON, async || {
        let found: String = db.query_one(sql, &[]).await.unwrap().get(0);
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
