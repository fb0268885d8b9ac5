//! Two durable queues that nobody consumes before the end. A queue's order is the order in which the exchange took the
//! messages, and no consumer's loss can repeat any of them.

use futures_util::StreamExt;
use harness::Vhost;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{BasicConsumeOptions, QueueDeclareOptions},
    types::FieldTable,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::checker::{Delivered, Queue};

const QUEUES: [(Queue, &str); 2] = [(Queue::Open, "open"), (Queue::Full, "full")];

/// Makes the queues, each bound by its name as topic. `full` nacks when it holds `full_at` messages.
pub(super) async fn declare(vhost: &Vhost, full_at: Option<u32>) {
    let place = vhost.name();
    vhost.exchange("outbox").await;
    for (_, name) in QUEUES {
        vhost.api("PUT", &format!("/api/queues/{place}/{name}"), Some(&json!({ "durable": true }))).await;
        let path = format!("/api/bindings/{place}/e/outbox/q/{name}");
        vhost.api("POST", &path, Some(&json!({ "routing_key": name }))).await;
    }
    if let Some(length) = full_at {
        let definition = json!({ "max-length": length, "overflow": "reject-publish" });
        let policy = json!({ "pattern": "^full$", "apply-to": "queues", "definition": definition });
        vhost.api("PUT", &format!("/api/policies/{place}/full"), Some(&policy)).await;
    }
}

/// The queue `full` takes everything from now on. Its limit is never lowered while it holds messages: RabbitMQ would
/// drop those that it has confirmed.
pub(super) async fn make_room(vhost: &Vhost) {
    vhost.api("DELETE", &format!("/api/policies/{}/full", vhost.name()), None).await;
}

/// What the queues hold, and which policy they follow: `full` none, once there is room.
pub(super) async fn state(vhost: &Vhost) -> String {
    let queues = vhost.api("GET", &format!("/api/queues/{}", vhost.name()), None).await;
    let of = |queue: &Value| format!("{}: {} messages, policy {}", queue["name"], queue["messages"], queue["policy"]);
    queues.as_array().into_iter().flatten().map(of).collect::<Vec<_>>().join("; ")
}

/// Empties the queues, in order. The relays have ended.
pub(super) async fn read(vhost: &Vhost) -> Vec<Delivered> {
    let connection = Connection::connect(&vhost.url(), ConnectionProperties::default()).await.expect("the broker");
    let channel = connection.create_channel().await.expect("a channel");
    let mut delivered = Vec::new();
    for (queue, name) in QUEUES {
        delivered.extend(read_one(&channel, queue, name).await.unwrap_or_else(|e| panic!("cannot read {name}: {e}")));
    }
    delivered
}

async fn read_one(channel: &Channel, queue: Queue, name: &str) -> lapin::Result<Vec<Delivered>> {
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let count = channel.queue_declare(name.into(), passive, FieldTable::default()).await?.message_count();
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut stream = channel.basic_consume(name.into(), "".into(), options, FieldTable::default()).await?;
    let mut delivered = Vec::new();
    while delivered.len() < count as usize {
        let message = stream.next().await.expect("the queue has more messages")?;
        let id = message.properties.message_id().as_ref().and_then(|id| Uuid::parse_str(id.as_str()).ok());
        let headers = message.properties.headers().as_ref();
        let key = headers.and_then(|headers| match headers.inner().get("aggregate_id")? {
            lapin::types::AMQPValue::LongString(text) => text.to_string().parse::<u32>().ok(),
            _ => None,
        });
        let body: Value = serde_json::from_slice(&message.data).unwrap_or_default();
        let key = key.zip(body["n"].as_i64());
        delivered.push(Delivered { id: id.unwrap_or_default(), queue, key });
    }
    Ok(delivered)
}
