//! The examples that consume: each message has its effect once, however often it arrives. What cannot be handled is put
//! aside, lost connections are made again, and SIGTERM ends them cleanly.

use std::process::{Child, Command};

use harness::{Database, Kafka, Listener, Postgres, Proxy, RelayBuilder, SOON, Stack, eventually, places::checkout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use uuid::Uuid;

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
    kafka.create_topic("billing.dead", 1, &[]).await;
    let addresses = kafka.addresses(Listener::Plain);
    example.env("KAFKA_BROKERS", &addresses);
    let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name());
    let relay = relay.set("kafka-url", &format!("kafka://{addresses}"));
    let dead = async |count| {
        let mut dead = kafka.consumer("billing.dead");
        let ids = dead.wait_for(count).await.iter().map(|record| record.header("id").unwrap().parse().unwrap());
        ids.collect()
    };
    // Kafka's clients reconnect by themselves.
    bills_once(&db, relay, example, || (), dead).await;
}

pub(super) async fn bills_once_from_rabbitmq(mut example: Command) {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    let vhost = stack.vhost.name();
    let dead_letters = json!({ "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing.dead" });
    for (queue, arguments) in [("billing", dead_letters), ("billing.dead", json!({}))] {
        let queue = format!("/api/queues/{vhost}/{queue}");
        stack.vhost.api("PUT", &queue, Some(&json!({ "durable": true, "arguments": arguments }))).await;
    }
    let binding = json!({ "routing_key": "orders.*" });
    stack.vhost.api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/billing"), Some(&binding)).await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    example.env("AMQP_URL", stack.vhost.url_at(proxy.port()));
    let dead = stack.consumer_with("no.topic").existing_queue("billing.dead").start().await;
    let dead = async |count| dead.wait_for(count).await.iter().map(|message| message.id).collect();
    bills_once(&stack.db, stack.relay(), example, || proxy.cut(), dead).await;
}

/// Runs the example beside a relay that delivers some messages, delivers them again, and delivers two that nobody can
/// bill: the example puts these aside, and `dead` waits for so many of them. It goes on after it has lost its
/// connection to the database, and after that to the broker (`cut`), and ends well on SIGTERM.
async fn bills_once(
    db: &Database,
    relay: RelayBuilder,
    mut example: Command,
    cut: impl Fn(),
    dead: impl AsyncFn(usize) -> Vec<Uuid>,
) {
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
    let mut example = Running(example.spawn().unwrap());

    let emit = "SELECT outbox.emit('orders.created', jsonb_build_object('id', n, 'customer', 'Ada', 'total', '42.50'),
                                   aggregate_type => 'order', aggregate_id => 'all')
                FROM generate_series($1::int, $2) AS n";
    db.query(emit, &[&1, &3]).await.unwrap();
    invoices_are(db, "1 2 3").await;
    assert_eq!(db.execute("SELECT outbox.replay(id) FROM outbox.events", &[]).await.unwrap(), 3);
    // It comes behind the replays.
    db.query(emit, &[&4, &4]).await.unwrap();
    invoices_are(db, "1 2 3 4").await;

    let poison =
        "SELECT outbox.emit('orders.created', '{\"id\": \"none\"}', aggregate_type => 'order', aggregate_id => 'all')
                  UNION ALL
                  SELECT outbox.emit('orders.created', 'no JSON', content_type => 'text/plain',
                                     aggregate_type => 'order', aggregate_id => 'all')";
    let poison: Vec<Uuid> = db.query(poison, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    db.query(emit, &[&5, &5]).await.unwrap();
    invoices_are(db, "1 2 3 4 5").await;
    assert_eq!(dead(2).await, poison);

    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
    assert_eq!(db.execute(end, &[&role]).await.unwrap(), 1);
    db.query(emit, &[&6, &6]).await.unwrap();
    invoices_are(db, "1 2 3 4 5 6").await;
    cut();
    db.query(emit, &[&7, &7]).await.unwrap();
    invoices_are(db, "1 2 3 4 5 6 7").await;
    assert_eq!(dead(2).await, poison); // the orders that met a lost connection are not among them

    example.stops().await;
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

/// An example that consumes until it is told to end.
struct Running(Child);

impl Running {
    /// Ends with 0 on SIGTERM.
    async fn stops(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let status = eventually("it ends", SOON, async || self.0.try_wait().unwrap().ok_or("runs")).await;
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
