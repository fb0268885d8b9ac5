//! The broker of a lane, and the part of it that a run has for itself.

use harness::{Database, Kafka, Listener, RabbitMq, RelayBuilder, Vhost};
use serde_json::Value;
use uuid::Uuid;

use super::{
    checker::{Delivered, Queue},
    record,
    schedule::{BrokerFault, Fault, Schedule},
};

/// A broker that faults may break.
pub(super) enum Broker {
    RabbitMq(RabbitMq),
    /// One node.
    Kafka(Kafka),
}

/// Where the events of a run go.
pub(super) enum Place<'a> {
    Vhost(&'a RabbitMq, Vhost),
    /// Topics whose names end with this.
    Topics(&'a Kafka, String),
}

/// As topics of events, and as the beginnings of Kafka's.
const TOPICS: [(Queue, &str); 2] = [(Queue::Open, "open"), (Queue::Full, "full")];

impl Broker {
    /// A place for a run in this database.
    pub(super) async fn place(&self, db: &Database, schedule: &Schedule) -> Place<'_> {
        match self {
            Self::RabbitMq(node) => {
                let vhost = node.vhost().await;
                record::declare(&vhost, schedule.full_at()).await;
                if schedule.kills_broker() {
                    node.write_declared().await;
                }
                Place::Vhost(node, vhost)
            }
            Self::Kafka(kafka) => {
                for (_, topic) in TOPICS {
                    kafka.create_topic(&format!("{topic}.{}", db.name()), 3, &[]).await;
                }
                Place::Topics(kafka, db.name().to_owned())
            }
        }
    }

    pub(super) fn log(&self) -> String {
        match self {
            Self::RabbitMq(node) => node.log(),
            Self::Kafka(kafka) => kafka.node(1).log(),
        }
    }

    /// Whether it takes an event twice, and whether a killed one may keep the later of two messages that it has not
    /// confirmed, and lose the earlier.
    pub(super) fn repeats(&self) -> bool {
        matches!(self, Self::RabbitMq(_))
    }
}

impl Place<'_> {
    pub(super) fn relay(&self, db: &Database) -> RelayBuilder {
        let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name());
        match self {
            Self::Vhost(_, vhost) => relay.set("amqp-url", &vhost.url()),
            Self::Topics(kafka, name) => relay
                .set("kafka-url", &format!("kafka://{}", kafka.addresses(Listener::Plain)))
                .set("kafka-topic", &format!("{{topic}}.{name}")),
        }
    }

    /// Brings a fault about, and heals it. Kafka's topics are never full; connections are closed by a restart, as that
    /// is what closes them there.
    pub(super) async fn suffer(&self, fault: &Fault<BrokerFault>) {
        match self {
            Self::Vhost(node, vhost) => match fault.kind {
                BrokerFault::Kill => {
                    node.kill_at_once().await;
                    fault.last().await;
                    node.start().await;
                }
                BrokerFault::Freeze => {
                    node.pause();
                    fault.last().await;
                    node.resume();
                }
                BrokerFault::CloseConnections => {
                    node.cut_connections(vhost.name()).await;
                }
                BrokerFault::MemoryAlarm => {
                    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
                    fault.last().await;
                    node.ctl(&["set_vm_memory_high_watermark", "0.4"]).await;
                }
                BrokerFault::MakeRoom { .. } => {
                    record::make_room(vhost).await;
                    // Seen without: a broker that was killed 1.4 s later came back with the limit, and refused until
                    // the end.
                    node.write_declared().await;
                }
            },
            Self::Topics(kafka, _) => {
                let node = kafka.node(1);
                match fault.kind {
                    BrokerFault::Kill | BrokerFault::MemoryAlarm => {
                        node.kill().await;
                        fault.last().await;
                        node.start().await;
                    }
                    BrokerFault::Freeze => {
                        node.pause();
                        fault.last().await;
                        node.resume();
                    }
                    BrokerFault::CloseConnections => {
                        node.stop().await;
                        node.start().await;
                    }
                    BrokerFault::MakeRoom { .. } => {}
                }
            }
        }
    }

    /// What a person looks at when a run does not end.
    pub(super) async fn state(&self) -> String {
        match self {
            Self::Vhost(_, vhost) => record::state(vhost).await,
            Self::Topics(kafka, name) => {
                let mut states = Vec::new();
                for (_, topic) in TOPICS {
                    states.push(format!("{topic}: {} records", kafka.records(&format!("{topic}.{name}")).await.len()));
                }
                states.join("; ")
            }
        }
    }

    /// What has arrived, of each key in its order. The relays have ended.
    pub(super) async fn read(&self) -> Vec<Delivered> {
        let (kafka, name) = match self {
            Self::Vhost(_, vhost) => return record::read(vhost).await,
            Self::Topics(kafka, name) => (kafka, name),
        };
        let mut delivered = Vec::new();
        for (queue, topic) in TOPICS {
            for record in kafka.records(&format!("{topic}.{name}")).await {
                let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()?.parse().ok());
                let body: Value =
                    serde_json::from_slice(record.value.as_deref().unwrap_or_default()).unwrap_or_default();
                let id = record.header("id").and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_default();
                delivered.push(Delivered { id, queue, key: key.zip(body["n"].as_i64()) });
            }
        }
        delivered
    }
}
