//! Kafka as a sink: how the producer connects, and the outcomes of its confirms.

mod answer;
pub(super) mod config;
mod envelope;
mod message;
mod read_back;
mod refusal;
mod settings;
mod topic;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kafka_producer::{Confirm, ConnectError, KafkaError, KafkaUrl, News, ProduceConfig, TopicRead};
use outbox_core::{Abilities, Event, Older, SIDE_CHANNELS};
use tracing::warn;

pub use self::{
    config::Config,
    envelope::Envelope,
    message::Outbound,
    refusal::end_of_start,
    settings::{produce_config, settings},
    topic::{InvalidTopic, TopicTemplate},
};
use self::{
    message::Mark,
    read_back::{ReadBack, Taken},
};
use super::{
    Answer, BrokerKind, Spans, Unroutable,
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
    /// The name under which the relay publishes; `None`: it has not taken over yet, or does not read back.
    name: Option<String>,
    reads_back: bool,
    read_back: ReadBack,
    /// Answers about events that were not sent.
    unsent: Vec<Answer>,
    /// Whether the log says already that earlier relays are not shut out.
    has_warned: bool,
}

impl Kafka {
    fn outbound(&mut self, event: Arc<Event>) -> Outbound {
        let topic: Box<str> = self.topic.topic(&event).into();
        let traceparent = self.spans.published(&event, || (topic.to_string(), []));
        Outbound::new(event, topic, traceparent, self.envelope)
    }

    /// A topic was read back. Returns answers about events that waited for that, and lets the others leave.
    fn read(&mut self, producer: &mut Producer, read: TopicRead<Mark>) -> Vec<Answer> {
        let topic = read.topic.clone();
        if let Some(why) = read.unfenced.as_ref().filter(|_| !self.has_warned) {
            self.has_warned = true;
            let name = self.name.as_deref().unwrap_or_default();
            warn!(target: "relay", topic, why, transactional_id = name, "earlier relays are not shut out: one that was frozen can still write into the topic");
        }
        let read_back::After { answers, leaving, asks, gap } = self.read_back.read(read);
        if let Some(why) = gap {
            warn!(target: "relay", topic, why, "the topic cannot be read back to the end: events that were in flight may be published twice");
        }
        if let Some(from) = asks {
            producer.read_back(&topic, from);
        }
        producer.publish(leaving);
        answers
    }

    /// The connection is gone.
    fn ended(&mut self) {
        self.read_back.lost();
        self.unsent.clear();
    }

    /// Takes answers to the core.
    fn told(&mut self, answers: Vec<Answer>) -> Heard<KafkaError> {
        answers.iter().for_each(|answer| self.spans.answered(answer));
        Heard::Answers(answers)
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
        let produce = produce_config(config, &address)?;
        Ok(Self {
            address,
            read_back: ReadBack::new(produce.keeps_order),
            config: produce,
            topic: kafka.topic.clone(),
            envelope: kafka.envelope,
            unroutable: config.unroutable,
            spans,
            name: None,
            reads_back: kafka.read_back.is_some(),
            unsent: Vec::new(),
            has_warned: false,
        })
    }

    fn connect(&mut self, _is_first: bool) -> Result<Attempt<Self>, BadFile> {
        self.address.now()?;
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
        Abilities { ordered: true, reads_back: self.reads_back, largest_message: Some(LARGEST) }
    }

    fn begin(&mut self, name: String) {
        self.name = Some(name).filter(|_| self.reads_back);
    }

    fn read_back(&mut self, since_us: Option<i64>, older: Older) {
        self.read_back.begin(since_us, older);
    }

    async fn next(&mut self, producer: &mut Box<Producer>) -> Heard<KafkaError> {
        loop {
            if !self.unsent.is_empty() {
                let answers = std::mem::take(&mut self.unsent);
                return self.told(answers);
            }
            match producer.next().await {
                News::Confirms(confirms) => {
                    let answer = |Confirm { id, kind }| answer::read(id, kind, self.unroutable);
                    let answers = confirms.into_iter().map(answer).collect();
                    return self.told(answers);
                }
                News::Read(read) => self.unsent = self.read(producer, read),
                News::Lost(error) => return Heard::Lost(error),
            }
        }
    }

    fn lost(&mut self, producer: Box<Producer>, error: &KafkaError, _lived: Duration) -> Lost {
        self.ended();
        let why = format!("{}: {}", producer.peer(), crate::error::chain(error));
        self.spans.lost(&why);
        Lost { why, may_be_a_message: false, was_proven: false }
    }

    fn given_up(&mut self, _producer: Box<Producer>, why: &'static str) {
        self.ended();
        self.spans.lost(why);
    }

    fn publish(&mut self, producer: &mut Box<Producer>, events: Vec<Arc<Event>>) {
        producer.begin(self.name.clone());
        let mut leaving = Vec::with_capacity(events.len());
        for event in events {
            let event = self.outbound(event);
            match self.read_back.take(event) {
                Taken::Leaves(event) => leaving.push(event),
                Taken::Found(answer) => self.unsent.push(answer),
                Taken::Waits => {}
                Taken::Asks(topic, from) => producer.read_back(&topic, from),
            }
        }
        producer.publish(leaving);
    }

    fn publish_beside(&mut self, producer: &mut Box<Producer>, events: Vec<Arc<Event>>) {
        self.publish(producer, events);
    }

    async fn close(producer: Box<Producer>) {
        drop(producer);
    }
}
