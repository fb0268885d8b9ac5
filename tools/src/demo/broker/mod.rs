//! The broker of the demo with the consumer behind it: what differs between RabbitMQ and Kafka.

mod kafka;
mod rabbitmq;

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use harness::{Database, RelayBuilder, SOON, eventually};
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

use crate::screen::Screen;

/// A private broker with a consumer.
pub(crate) enum Broker {
    /// RabbitMQ.
    RabbitMq(Box<rabbitmq::RabbitMq>),
    /// Kafka.
    Kafka(kafka::Kafka),
}

/// A message as the consumer received it.
#[derive(Clone)]
pub(crate) struct Arrival {
    /// The event's id.
    pub(crate) id: Uuid,
    /// The routing key or the topic.
    pub(crate) destination: String,
    /// The ordering key.
    pub(crate) key: Option<(String, String)>,
    /// The event's place in the table.
    pub(crate) seq: Option<i64>,
    /// The payload.
    pub(crate) body: Vec<u8>,
    /// When it arrived.
    pub(crate) received: SystemTime,
}

/// How the steps speak of a broker.
pub(crate) struct Words {
    /// Where a message has the event's id.
    pub(crate) id: &'static str,
    /// What nobody listens to.
    pub(crate) unroutable: &'static str,
    /// Emits it.
    pub(crate) emit: &'static str,
    /// Why the event has failed.
    pub(crate) why: &'static str,
    /// The beginning of the broker's words.
    pub(crate) error: &'static str,
    /// What makes up for it.
    pub(crate) mend: &'static str,
    /// The same, as a heading.
    pub(crate) mended: &'static str,
}

impl Arrival {
    /// Time from `start` to its arrival; zero if it arrived before.
    pub(crate) fn since(&self, start: SystemTime) -> Duration {
        self.received.duration_since(start).unwrap_or_default()
    }
}

impl Broker {
    /// Starts the broker that `SINK` names.
    ///
    /// # Panics
    /// When there is no such broker.
    pub(crate) async fn start(screen: &Screen) -> Self {
        match std::env::var("SINK").unwrap_or_default().as_str() {
            "" | "rabbitmq" => Self::RabbitMq(Box::new(rabbitmq::RabbitMq::start(screen).await)),
            "kafka" => Self::Kafka(kafka::Kafka::start(screen).await),
            other => panic!("SINK={other}: the demo has rabbitmq and kafka"),
        }
    }

    /// Starts the consumer.
    pub(crate) async fn consume(&mut self, screen: &Screen) {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.consume(screen).await,
            Self::Kafka(kafka) => kafka.consume(screen).await,
        }
    }

    /// A relay between a database and the broker. Its slot has the database's name, because slots are the server's.
    pub(crate) fn relay(&self, db: &Database) -> RelayBuilder {
        let relay = RelayBuilder::new().set("database-url", &db.url_as("relay")).set("slot", db.name());
        self.settings().into_iter().fold(relay, |relay, (name, value)| relay.set(name, &value))
    }

    /// The relay's settings for the broker.
    fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.settings(),
            Self::Kafka(kafka) => kafka.settings(),
        }
    }

    /// These settings as variables of a shell.
    pub(crate) fn variables(&self) -> String {
        let variable = |(name, value): (&str, String)| {
            let prefix = if name == "amqp-url" { "" } else { "OUTBOX_RELAY_" };
            format!("{prefix}{}='{value}'", name.to_uppercase().replace('-', "_"))
        };
        self.settings().into_iter().map(variable).collect::<Vec<_>>().join(" ")
    }

    /// How the steps speak of it.
    pub(crate) fn words(&self) -> &'static Words {
        match self {
            Self::RabbitMq(_) => &rabbitmq::WORDS,
            Self::Kafka(_) => &kafka::WORDS,
        }
    }

    /// Makes the destination whose events have failed, and consumes it.
    pub(crate) async fn mend(&mut self) {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.bind().await,
            Self::Kafka(kafka) => kafka.create_topic().await,
        }
    }

    /// How to reach it, each way with its name.
    pub(crate) fn addresses(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.addresses(),
            Self::Kafka(kafka) => kafka.addresses(),
        }
    }

    /// Statements to try in psql.
    pub(crate) fn statements(&self) -> &'static [&'static str] {
        match self {
            Self::RabbitMq(_) => &rabbitmq::STATEMENTS,
            Self::Kafka(_) => &kafka::STATEMENTS,
        }
    }

    /// Hands the consumer over: what arrives from now on, a line each.
    pub(crate) async fn watch(&mut self) -> Receiver<String> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.watch().await,
            Self::Kafka(kafka) => kafka.watch(),
        }
    }

    /// Its ports on 127.0.0.1.
    pub(crate) fn ports(&self) -> Vec<u16> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.ports(),
            Self::Kafka(kafka) => vec![kafka.port()],
        }
    }

    /// How many messages have arrived, repeated ones included.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.count(),
            Self::Kafka(kafka) => kafka.count(),
        }
    }

    /// What has arrived so far, in order.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.arrivals(),
            Self::Kafka(kafka) => kafka.arrivals(),
        }
    }

    /// The ids that have arrived so far, in order, repeated ones included.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.arrivals().into_iter().map(|arrival| arrival.id).collect()
    }

    /// Waits until so many have arrived, and returns all.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Arrival> {
        eventually(&format!("{count} messages"), SOON, async || match self.count() {
            arrived if arrived >= count => Ok(self.arrivals()),
            arrived => Err(arrived),
        })
        .await
    }

    /// Waits until each of these ids has arrived, and returns all arrivals.
    pub(crate) async fn wait_for_ids(&self, ids: &[Uuid], deadline: Duration) -> Vec<Arrival> {
        eventually(&format!("all of {} ids", ids.len()), deadline, async || {
            // Counting is cheap, comparing a flood of ids is not.
            if self.count() < ids.len() {
                return Err(format!("{} messages", self.count()));
            }
            let arrivals = self.arrivals();
            let arrived: HashSet<Uuid> = arrivals.iter().map(|arrival| arrival.id).collect();
            let missing = ids.iter().filter(|id| !arrived.contains(id)).count();
            if missing == 0 { Ok(arrivals) } else { Err(format!("{missing} missing")) }
        })
        .await
    }
}
