//! Queues, made by RabbitMQ's HTTP API.

use std::fmt;

use harness::Vhost;
use serde_json::json;

/// What RabbitMQ keeps the messages in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    /// On one node.
    Classic,
    /// Replicated by Raft; here with one member, since there is one node.
    Quorum,
}

impl QueueType {
    pub(crate) const ALL: [Self; 2] = [Self::Classic, Self::Quorum];
}

impl fmt::Display for QueueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        })
    }
}

/// A durable queue, bound to a durable topic exchange.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: QueueType,
    /// The exchange: `outbox` is the relay's default.
    pub(crate) exchange: &'static str,
    /// The pattern it is bound by.
    pub(crate) binding: &'static str,
}

impl Queue {
    /// One that gets everything that the relay publishes.
    pub(crate) const fn of_relay(kind: QueueType) -> Self {
        Self { name: "bench", kind, exchange: "outbox", binding: "#" }
    }

    /// Declares exchange and queue, and binds them.
    pub(crate) async fn declare(&self, vhost: &Vhost) {
        vhost.exchange(self.exchange).await;
        let queue = json!({ "durable": true, "arguments": { "x-queue-type": self.kind.to_string() } });
        vhost.api("PUT", &self.path(vhost), Some(&queue)).await;
        let bindings = format!("/api/bindings/{}/e/{}/q/{}", vhost.name(), self.exchange, self.name);
        vhost.api("POST", &bindings, Some(&json!({ "routing_key": self.binding }))).await;
    }

    /// Deletes the queue with what is in it.
    pub(crate) async fn delete(&self, vhost: &Vhost) {
        vhost.api("DELETE", &self.path(vhost), None).await;
    }

    fn path(&self, vhost: &Vhost) -> String {
        format!("/api/queues/{}/{}", vhost.name(), self.name)
    }
}
