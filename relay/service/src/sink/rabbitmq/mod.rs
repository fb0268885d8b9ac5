//! RabbitMQ as a sink: how the publisher connects, and the outcomes of its confirms.

mod answer;
pub(super) mod config;
mod message;
mod refusal;
mod reserved;
mod settings;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_publisher::{self as amqp, AmqpError, AmqpUrl, Confirm, ConnectError, ExchangeUse, News, Peer, PublishConfig};
use outbox_core::{Event, Text};

use self::refusal::why;
pub use self::{
    answer::NACKED,
    config::Config,
    message::Outbound,
    refusal::{end_of_start, explain},
    settings::{publish_config, settings},
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
pub type Publisher = amqp::Publisher<Outbound>;

/// RabbitMQ's names and hints.
const KIND: BrokerKind = BrokerKind {
    label: "rabbitmq",
    name: "RabbitMQ",
    answers: answer::ALL,
    blocks_over: "a memory or disk alarm",
    unavailable_by: "basic.nack",
    unavailable_hint: "look for queues that are full, have no majority, or have crashed",
    silent_hint: "look for quorum queues without a majority",
};

/// Longest pause before a channel is opened in place of a closed one. The pause doubles each time that the broker still
/// counted the closed one.
const LONGEST_REOPEN: Duration = Duration::from_secs(1);

/// After a connection of at least this length, the relay asks for the configured number of side channels again, because
/// the broker counts none of the closed ones any more.
const CHANNELS_COUNTED_OFF: Duration = Duration::from_secs(3600);

/// How the relay connects to RabbitMQ, and the outcomes of RabbitMQ's confirms.
pub struct RabbitMq {
    address: Address<AmqpUrl>,
    config: PublishConfig,
    /// Configured number of side channels, for which the first connection asks.
    side_channels: u16,
    unroutable: Unroutable,
    key_headers: bool,
    spans: Spans,
}

impl RabbitMq {
    /// Reduces the number of channels after RabbitMQ's channel limit was reached: the user may have fewer, or the
    /// broker still counts a closed one.
    fn use_fewer_channels(&mut self) {
        self.config.side_channels /= 2;
        self.config.reopen_after = (2 * self.config.reopen_after).min(LONGEST_REOPEN);
    }
}

/// Makes the event's message, and begins its span by OpenTelemetry's conventions for RabbitMQ
/// (<https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/>). Without OpenTelemetry only the message is made.
fn outbound(event: Arc<Event>, exchange: &str, key_headers: bool, spans: &mut Spans) -> Outbound {
    let traceparent = spans.published(&event, || {
        let topic = event.destination.topic.as_str();
        let exchange = event.destination.exchange.as_ref().map_or(exchange, Text::as_str);
        let destination = match (exchange, topic) {
            ("", "") => "amq.default".to_owned(),
            ("", only) | (only, "") => only.to_owned(),
            (exchange, topic) => format!("{exchange}:{topic}"),
        };
        (destination, [("messaging.rabbitmq.destination.routing_key", topic.to_owned())])
    });
    Outbound::new(event).continuing(traceparent).telling_key(key_headers)
}

fn is_channel_limit(error: &AmqpError) -> bool {
    matches!(error, AmqpError::ChannelLimit(_))
}

impl Connect for RabbitMq {
    const KIND: &'static BrokerKind = &KIND;

    type Connection = Box<Publisher>;
    type Error = ConnectError;
    type Loss = AmqpError;

    fn new(config: &crate::Config, spans: Spans) -> Result<Self, RunError> {
        let missing = || RunError::new(Kind::Usage, "amqp-url (AMQP_URL) is not set").hint("see docs/configuration.md");
        let rabbitmq = settings(config).ok_or_else(missing)?;
        let address = rabbitmq.url.clone();
        let url = address.known()?;
        let (publish, unroutable, key_headers) =
            (publish_config(config, rabbitmq, url), config.unroutable, rabbitmq.key_headers);
        Ok(Self { address, side_channels: publish.side_channels, config: publish, unroutable, key_headers, spans })
    }

    fn connect(&mut self, is_first: bool) -> Result<Attempt<Self>, BadFile> {
        self.config.url = self.address.now()?;
        let mut config = self.config.clone();
        if config.exchange_use == ExchangeUse::Declare && !is_first {
            config.exchange_use = ExchangeUse::Expect;
        }
        Ok(Box::pin(async move { Publisher::connect(config).await.map(Box::new) }))
    }

    fn opened(&mut self, publisher: &Box<Publisher>) -> Opened {
        let peer @ Peer { host, address, .. } = publisher.peer();
        self.spans.connected(host, *address);
        Opened {
            peer: ServerPeer { host: peer.host_port(), description: peer.to_string(), expiry: publisher.expiry() },
            is_proven: publisher.is_proven(),
            is_new_identity: false,
            side_channels: usize::from(publisher.side_channels()),
        }
    }

    fn failed(&mut self, error: &ConnectError, since: Instant) -> Failed {
        if error.failures.iter().any(|failure| is_channel_limit(&failure.cause)) {
            self.use_fewer_channels();
        }
        // A proof is useful only directly after a lost connection, and a broker that blocks publishing gives none.
        self.config.prove = false;
        let is_login = matches!(error.refusal(), Some(AmqpError::Authentication { .. }));
        let is_transient = error.is_transient() || is_login && self.address.may_change(since);
        Failed { why: why(error, &self.address), is_transient }
    }

    fn end_of_start(&self, error: &ConnectError) -> RunError {
        end_of_start(error, &self.address)
    }

    async fn next(&mut self, publisher: &mut Box<Publisher>) -> Heard<AmqpError> {
        match publisher.next().await {
            News::Confirms(confirms) => {
                let answer = |Confirm { id, kind }| {
                    let answer = answer::read(id, kind, self.unroutable);
                    self.spans.answered(&answer);
                    answer
                };
                Heard::Answers(confirms.into_iter().map(answer).collect())
            }
            News::Blocked { reason } => Heard::Blocked(reason),
            News::Unblocked => Heard::Unblocked,
            News::Lost(error) => Heard::Lost(error),
        }
    }

    fn lost(&mut self, publisher: Box<Publisher>, error: &AmqpError, lived: Duration) -> Lost {
        if lived >= CHANNELS_COUNTED_OFF {
            self.config.side_channels = self.side_channels;
        }
        let peer = publisher.peer();
        (self.config.try_first, self.config.try_last) = (None, Some(peer.address));
        let why = format!("{peer}: {}", explain(error));
        self.spans.lost(&why);
        if is_channel_limit(error) {
            self.use_fewer_channels();
        }
        // If a message may have ended this connection, the next one first proves that the broker takes messages at all.
        self.config.prove = error.may_be_a_message();
        Lost { why, may_be_a_message: self.config.prove, was_proven: publisher.is_proven() }
    }

    fn given_up(&mut self, publisher: Box<Publisher>, why: &'static str) {
        // The same node is tried first: other nodes may be down, and each of them would cost a time limit.
        self.config.try_first = Some(publisher.peer().clone());
        (self.config.try_last, self.config.prove) = (None, false);
        self.spans.lost(why);
    }

    fn publish(&mut self, publisher: &mut Box<Publisher>, events: Vec<Arc<Event>>) {
        let outbound = |event| outbound(event, &self.config.exchange, self.key_headers, &mut self.spans);
        publisher.publish(events.into_iter().map(outbound).collect());
    }

    fn publish_beside(&mut self, publisher: &mut Box<Publisher>, events: Vec<Arc<Event>>) {
        for event in events {
            publisher.publish_beside(outbound(event, &self.config.exchange, self.key_headers, &mut self.spans));
        }
    }

    async fn close(publisher: Box<Publisher>) {
        publisher.close().await;
    }
}
