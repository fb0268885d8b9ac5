//! The examples that consume: each message has its effect once, however often it arrives. A message that cannot be
//! dealt with is put aside, a lost connection is made again, and SIGTERM ends the program with 0.

use std::process::{Child, Command};

use harness::{
    Database, Kafka, Listener, Postgres, RabbitMq, Relay, RelayBuilder, SOON, Stack, eventually, places::checkout,
};
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
    bills_from_rabbitmq(workshop.command("built/consume")).await;
}

#[tokio::test]
async fn a_java_program_consumes_with_rabbitmqs_client() {
    let Some(workshop) = java().await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "Consume.java"]);
    bills_from_rabbitmq(java).await;
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
    bills_from_kafka(java, kafka).await;
}

async fn kafka() -> Option<Kafka> {
    if let Some(why) = Kafka::missing() {
        not_run_outside_ci("kafka", why);
        return None;
    }
    let kafka = Kafka::private().start().await;
    kafka.create_topic("orders.created", 3, &[]).await;
    kafka.create_topic(DEAD, 1, &[]).await;
    Some(kafka)
}

/// The queue that the dead-letter exchange fills, or the topic that the example itself writes to.
const DEAD: &str = "billing.dead";

/// The example bills each order once, puts aside what is no order, goes on after its connection to the database is
/// lost, and ends at SIGTERM. Kafka's clients make their connections to the brokers again by themselves.
async fn bills_from_kafka(example: Command, kafka: Kafka) {
    let (db, mut billing) = billing_from_kafka(example, &kafka).await;
    billing.bills_once(&db).await;
    let unfit = billing.passes_what_is_no_order(&db).await;
    let mut dead = kafka.consumer(DEAD);
    let ids = async |dead: &mut harness::KafkaConsumer<'_>| {
        let records = dead.wait_for(unfit.len()).await.iter();
        records.map(|record| record.header("id").unwrap().parse().unwrap()).collect::<Vec<Uuid>>()
    };
    assert_eq!(ids(&mut dead).await, unfit);
    billing.goes_on_after_its_session_has_ended(&db).await;
    billing.ends_at_sigterm().await;
    assert_eq!(ids(&mut dead).await, unfit); // an order that met the lost session is not among them
    assert!(billing.relay.stop().await.success());
}

/// The same, until it is killed.
async fn bills_once_from_kafka(example: Command, kafka: Kafka) {
    let (db, mut billing) = billing_from_kafka(example, &kafka).await;
    billing.bills_once(&db).await;
}

async fn billing_from_kafka(mut example: Command, kafka: &Kafka) -> (Database, Billing) {
    let db = Postgres::shared().await.database().await;
    let addresses = kafka.addresses(Listener::Plain);
    example.env("KAFKA_BROKERS", &addresses);
    let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name());
    let billing = Billing::start(&db, relay.set("kafka-url", &format!("kafka://{addresses}")), example).await;
    (db, billing)
}

/// The example bills each order once, rejects what is no order, goes on after its connection to the broker and that to
/// the database are lost, and ends at SIGTERM.
async fn bills_from_rabbitmq(example: Command) {
    let (stack, mut billing) = billing_from_rabbitmq(example).await;
    let dead = stack.vhost.consumer("dead", "#").queue(DEAD).start().await;
    billing.bills_once(&stack.db).await;
    let unfit = billing.passes_what_is_no_order(&stack.db).await;
    assert_eq!(dead.wait_for(unfit.len()).await.iter().map(|message| message.id).collect::<Vec<_>>(), unfit);

    eventually("relay and example are listed", SOON, async || {
        let connected = stack.vhost.connections().await;
        if connected.len() >= 3 { Ok(()) } else { Err(connected) } // and the consumer of dead letters
    })
    .await;
    RabbitMq::shared().await.cut_connections(stack.vhost.name()).await;
    billing.bills_another(&stack.db).await;
    billing.goes_on_after_its_session_has_ended(&stack.db).await;
    billing.ends_at_sigterm().await;

    // An order that met a lost connection was neither left unacknowledged nor rejected.
    let next = billing.order(&stack.db).await;
    let left = stack.vhost.consumer("outbox", "orders.*").existing_queue("billing").start().await;
    left.wait_for(1).await;
    assert_eq!((left.ids(), dead.ids()), (vec![next], unfit));
    assert!(billing.relay.stop().await.success());
}

/// The same, until it is killed.
async fn bills_once_from_rabbitmq(example: Command) {
    let (stack, mut billing) = billing_from_rabbitmq(example).await;
    billing.bills_once(&stack.db).await;
}

async fn billing_from_rabbitmq(mut example: Command) -> (Stack, Billing) {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    stack.vhost.exchange("dead").await;
    let vhost = stack.vhost.name();
    let queue = json!({ "durable": true, "arguments": { "x-dead-letter-exchange": "dead" } });
    stack.vhost.api("PUT", &format!("/api/queues/{vhost}/billing"), Some(&queue)).await;
    let binding = json!({ "routing_key": "orders.*" });
    stack.vhost.api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/billing"), Some(&binding)).await;
    example.env("AMQP_URL", stack.vhost.url());
    let billing = Billing::start(&stack.db, stack.relay(), example).await;
    (stack, billing)
}

/// An example that runs, and a relay that delivers to it.
struct Billing {
    relay: Relay,
    role: String,
    example: Running,
    orders: i32,
}

impl Billing {
    async fn start(db: &Database, relay: RelayBuilder, mut example: Command) -> Self {
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
        Self { relay, role, example: Running(example.spawn().unwrap()), orders: 0 }
    }

    async fn bills_once(&mut self, db: &Database) {
        for _ in 0..3 {
            self.order(db).await;
        }
        self.all_are_billed(db).await;
        assert_eq!(db.execute("SELECT outbox.replay(id) FROM outbox.events", &[]).await.unwrap(), 3);
        self.bills_another(db).await; // it comes behind the replays
    }

    /// Returns the ids of what is no order. An order comes behind it.
    async fn passes_what_is_no_order(&mut self, db: &Database) -> Vec<Uuid> {
        let emit = "SELECT outbox.emit('orders.created', '\"no order\"', aggregate_type => 'order', aggregate_id => 'all')
                    UNION ALL
                    SELECT outbox.emit('orders.created', 'no JSON', content_type => 'text/plain',
                                       aggregate_type => 'order', aggregate_id => 'all')";
        let unfit = db.query(emit, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        self.bills_another(db).await;
        unfit
    }

    async fn goes_on_after_its_session_has_ended(&mut self, db: &Database) {
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1";
        assert!(db.execute(end, &[&self.role]).await.unwrap() > 0);
        self.bills_another(db).await;
    }

    async fn ends_at_sigterm(&mut self) {
        let Running(example) = &mut self.example;
        kill_process(Pid::from_child(example), Signal::TERM).unwrap();
        let status = eventually("the example ends", SOON, async || example.try_wait().unwrap().ok_or("it runs")).await;
        assert_eq!(status.code(), Some(0));
    }

    async fn bills_another(&mut self, db: &Database) {
        self.order(db).await;
        self.all_are_billed(db).await;
    }

    async fn order(&mut self, db: &Database) -> Uuid {
        self.orders += 1;
        let emit = "SELECT outbox.emit('orders.created', jsonb_build_object('id', $1::int, 'customer', 'Ada', 'total', 42.5),
                                       aggregate_type => 'order', aggregate_id => 'all')";
        db.query_one(emit, &[&self.orders]).await.unwrap().get(0)
    }

    async fn all_are_billed(&self, db: &Database) {
        let sql =
            "SELECT coalesce(array_agg(order_id::int ORDER BY order_id), '{}') FROM invoices WHERE total = 42.50";
        let wanted: Vec<i32> = (1..=self.orders).collect();
        eventually("the invoices are written", SOON, async || {
            let found: Vec<i32> = db.query_one(sql, &[]).await.unwrap().get(0);
            if found == wanted { Ok(()) } else { Err(found) }
        })
        .await;
    }
}

/// Consumers have no end of their own.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
