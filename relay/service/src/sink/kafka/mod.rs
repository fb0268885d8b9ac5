//! Kafka as a sink: how the producer connects, and the outcomes of its confirms.

mod answer;
mod config;
mod envelope;
mod message;
mod refusal;
mod settings;
mod topic;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kafka_producer::{Confirm, ConnectError, KafkaError, KafkaUrl, News, ProduceConfig};
use outbox_core::{Abilities, Event, SIDE_CHANNELS};

pub use self::{
    config::Config,
    envelope::Envelope,
    message::Outbound,
    refusal::end_of_start,
    settings::{produce_config, settings},
    topic::{InvalidTopic, TopicTemplate},
};
use super::{
    BrokerKind, Spans, Unroutable,
    connect::{Attempt, Connect, Failed, Heard, Lost, Opened},
};
use crate::{
    address::{Address, BadFile},
    error::{Kind, RunError},
    peer::ServerPeer,
};

/// A connection over which events are published.
type Producer = kafka_producer::Producer<Outbound>;

/// Kafka's names and hints.
const KIND: BrokerKind = BrokerKind {
    label: "kafka",
    name: "Kafka",
    answers: answer::ALL,
    blocks_over: "nothing",
    unavailable_by: "the topic's state",
    unavailable_hint: "look for topics with fewer replicas in sync than min.insync.replicas, or without a leader",
    silent_hint: "look for brokers that are away or have a full disk",
};

/// Most bytes of a body. A broker ends the connection over a request of more than `socket.request.max.bytes`, which is
/// 100 MiB by default, and does not say which record that was.
const LARGEST: usize = 99 << 20;

/// How the relay connects to Kafka, and the outcomes of Kafka's confirms.
pub struct Kafka {
    address: Address<KafkaUrl>,
    config: ProduceConfig,
    topic: TopicTemplate,
    envelope: Envelope,
    unroutable: Unroutable,
    spans: Spans,
}

impl Kafka {
    fn outbound(&mut self, event: Arc<Event>) -> Outbound {
        let topic: Box<str> = self.topic.topic(&event).into();
        let traceparent = self.spans.published(&event, || (topic.to_string(), []));
        Outbound::new(event, topic, traceparent, self.envelope)
    }
}

impl Connect for Kafka {
    const KIND: &'static BrokerKind = &KIND;

    type Connection = Box<Producer>;
    type Error = ConnectError;
    type Loss = KafkaError;

    fn new(config: &crate::Config, spans: Spans) -> Result<Self, RunError> {
        let missing = || RunError::new(Kind::Usage, "kafka-url is not set").hint("see docs/configuration.md");
        let kafka = settings(config).ok_or_else(missing)?;
        let address = kafka.url.clone();
        let url = address.known()?;
        let produce = produce_config(config, url);
        let (topic, envelope) = (kafka.topic.clone(), kafka.envelope);
        Ok(Self { address, config: produce, topic, envelope, unroutable: config.unroutable, spans })
    }

    fn connect(&mut self, _is_first: bool) -> Result<Attempt<Self>, BadFile> {
        self.config.url = self.address.now()?;
        let config = self.config.clone();
        Ok(Box::pin(async move { Producer::connect(config).await.map(Box::new) }))
    }

    fn opened(&mut self, producer: &Box<Producer>) -> Opened {
        let host = producer.peer();
        if let Some(address) = producer.peer_address() {
            self.spans.connected(&host.name, address);
        }
        let name = host.to_string();
        Opened {
            peer: ServerPeer { host: name.clone(), description: name, expiry: producer.expiry() },
            is_proven: false,
            is_new_identity: true,
            // Topics wait for no other, and a key's records keep their order whichever way they are handed over.
            side_channels: SIDE_CHANNELS,
        }
    }

    fn failed(&mut self, error: &ConnectError, since: Instant) -> Failed {
        let is_login = error.is_login();
        let is_transient = error.is_transient() || is_login && self.address.may_change(since);
        Failed { why: refusal::why(error, &self.address), is_transient }
    }

    fn end_of_start(&self, error: &ConnectError) -> RunError {
        end_of_start(error, &self.address)
    }

    fn abilities(&self) -> Abilities {
        Abilities { ordered: true, largest_message: Some(LARGEST), ..Abilities::default() }
    }

    async fn next(&mut self, producer: &mut Box<Producer>) -> Heard<KafkaError> {
        match producer.next().await {
            News::Confirms(confirms) => {
                let answer = |Confirm { id, kind }| {
                    let answer = answer::read(id, kind, self.unroutable);
                    self.spans.answered(&answer);
                    answer
                };
                Heard::Answers(confirms.into_iter().map(answer).collect())
            }
            News::Lost(error) => Heard::Lost(error),
        }
    }

    fn lost(&mut self, producer: Box<Producer>, error: &KafkaError, _lived: Duration) -> Lost {
        let why = format!("{}: {}", producer.peer(), crate::error::chain(error));
        self.spans.lost(&why);
        Lost { why, may_be_a_message: false, was_proven: false }
    }

    fn given_up(&mut self, _producer: Box<Producer>, why: &'static str) {
        self.spans.lost(why);
    }

    fn publish(&mut self, producer: &mut Box<Producer>, events: Vec<Arc<Event>>) {
        producer.publish(events.into_iter().map(|event| self.outbound(event)).collect());
    }

    fn publish_beside(&mut self, producer: &mut Box<Producer>, events: Vec<Arc<Event>>) {
        self.publish(producer, events);
    }

    async fn close(producer: Box<Producer>) {
        drop(producer);
    }
}
