//! RabbitMQ, with a queue that lapin consumes.

use std::time::Instant;

use futures_util::StreamExt;
use harness::{Consumer, Delivery, RabbitMq as Server, Vhost};
use lapin::{Connection, ConnectionProperties, options::BasicConsumeOptions, types::FieldTable};
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};

use super::{Arrival, Words};
use crate::screen::{Screen, message_line};

pub(super) const WORDS: Words = Words {
    id: "message_id",
    unroutable: "An event that nobody listens to",
    emit: r#"SELECT outbox.emit('invoices.created', '{"invoice": 7}')"#,
    why: "the broker returned it: not lost, not taken for delivered",
    error: "312 NO_ROUTE",
    mend: "the consumer binds its queue by invoices.*",
    mended: "The queue gets bound, the event is replayed",
};

pub(super) const STATEMENTS: [&str; 4] = [
    r#"SELECT outbox.emit('orders.created', '{"order": 4711}');"#,
    r#"SELECT outbox.emit('orders.created', '{"order": 4712}', available_at => now() + interval '5 s');"#,
    "SELECT count(outbox.emit('orders.created', jsonb_build_object('n', n))) FROM generate_series(1, 100000) AS n;",
    "SELECT outbox.emit('nobody.listens', '{}');",
];

/// The server, a vhost, and a consumer. Dropped from top to bottom.
pub(crate) struct RabbitMq {
    /// A lapin client whose queue is bound to the relay's exchange.
    consumer: Option<Consumer>,
    vhost: Vhost,
    server: Server,
}

impl RabbitMq {
    pub(super) async fn start(screen: &Screen) -> Self {
        let begin = Instant::now();
        let server = Server::private().start().await;
        let time = begin.elapsed();
        let overview = server.api("GET", "/api/overview", None).await;
        let version = overview.get("rabbitmq_version").and_then(Value::as_str).unwrap_or("?");
        screen.timed(&format!("RabbitMQ {version}"), &format!("127.0.0.1:{}", server.amqp_port()), time);
        Self { consumer: None, vhost: server.vhost().await, server }
    }

    /// The queue is there before the first event, or that event would be unroutable.
    pub(super) async fn consume(&mut self, screen: &Screen) {
        let begin = Instant::now();
        self.consumer = Some(self.vhost.consumer("outbox", "orders.*").start().await);
        screen.timed("lapin consumer", "its queue is bound to exchange outbox by orders.*", begin.elapsed());
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("amqp-url", self.vhost.url())]
    }

    fn consumer(&self) -> &Consumer {
        self.consumer.as_ref().expect("the consumer was started")
    }

    pub(super) async fn bind(&self) {
        self.consumer().bind("invoices.*").await;
    }

    pub(super) fn addresses(&self) -> Vec<(&'static str, String)> {
        let pages = format!("http://127.0.0.1:{}  (guest, guest)", self.server.http_port());
        vec![("AMQP", self.vhost.url()), ("RabbitMQ's web pages", pages)]
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        vec![self.server.amqp_port(), self.server.http_port()]
    }

    pub(super) fn count(&self) -> usize {
        self.consumer().count()
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let arrival = |delivery: Delivery| Arrival {
            id: delivery.id,
            key: delivery.key(),
            seq: delivery.seq(),
            destination: delivery.routing_key,
            body: delivery.body,
            received: delivery.received,
        };
        self.consumer().deliveries().into_iter().map(arrival).collect()
    }

    /// Takes the queue over from the consumer, which remembers everything that it has ever got.
    pub(super) async fn watch(&mut self) -> Receiver<String> {
        let queue = self.consumer().queue().to_owned();
        self.consumer = None;
        let url = self.vhost.url();
        let (lines, watched) = channel(1000);
        let consume = async move {
            let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
            let mut messages =
                channel.basic_consume(queue.as_str().into(), "play".into(), options, FieldTable::default()).await?;
            while let Some(message) = messages.next().await {
                let message = message?;
                let id = message.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
                if lines.send(message_line(&id, message.routing_key.as_str(), &message.data)).await.is_err() {
                    break; // nobody watches any more
                }
            }
            Ok::<(), lapin::Error>(())
        };
        tokio::spawn(async move { consume.await.unwrap_or_else(|e| panic!("cannot consume: {e}")) });
        watched
    }
}
