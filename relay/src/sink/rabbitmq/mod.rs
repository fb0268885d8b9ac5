//! RabbitMQ as a sink: the publisher's connection and its coming back, and what its answers mean.

mod message;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_publisher::{self as amqp, ExchangeUse, PublishConfig, PublishError, Verdict};
use outbox_core::{Answer, Backoff, Event, Notice, Outcome};

pub use self::message::Outbound;
use super::{Sink, SinkFigures};
use crate::{config::Unroutable, error::chain};

/// A connection over which events are published.
pub type Publisher = amqp::Publisher<Outbound>;

const MISMATCH: &str = "name another exchange, or use this one as it is with declare_exchange = false";
const MISSING: &str = "make it again with its bindings, or import the broker's definitions; \
                       started with declare_exchange = true, the relay makes it, without any bindings";

/// What an event is told that a queue did not take.
pub const NACKED: &str = "the broker refused the message (basic.nack)";

/// Pauses between attempts to connect: from a blink to what an operator still accepts after a repair.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(5) };

/// One RabbitMQ, by one connection after the other.
pub struct RabbitMq {
    config: PublishConfig,
    unroutable: Unroutable,
    state: State,
    failures: u32,
    jitter: fastrand::Rng,
    figures: SinkFigures,
}

enum State {
    Open(Box<Publisher>),
    Connecting(Pin<Box<dyn Future<Output = Result<Publisher, PublishError>> + Send>>),
    Waiting(Instant),
}

impl RabbitMq {
    /// Goes on with `publisher`, if there is one, and else connects.
    ///
    /// The exchange was declared at the start, if it was to be. From then on it has bindings, which a new one would not have.
    pub fn new(mut config: PublishConfig, unroutable: Unroutable, publisher: Option<Publisher>) -> Self {
        if config.exchange_use == ExchangeUse::Declare {
            config.exchange_use = ExchangeUse::Expect;
        }
        let state = publisher.map_or(State::Waiting(Instant::now()), |publisher| State::Open(Box::new(publisher)));
        let mut figures = SinkFigures::default();
        if matches!(state, State::Open(_)) {
            figures.connected_to = Some(config.url.to_string());
        }
        Self { config, unroutable, state, failures: 0, jitter: fastrand::Rng::new(), figures }
    }

    /// Whether there is a connection.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn lost(&mut self, error: &PublishError) -> Notice {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(Instant::now() + RECONNECT.delay(self.failures, &mut self.jitter));
        let why = explain(error);
        (self.figures.connected_to, self.figures.error) = (None, Some(why.clone()));
        Notice::Away(why)
    }

    fn outcome(&mut self, verdict: Verdict) -> Outcome {
        *match &verdict {
            Verdict::Confirmed => &mut self.figures.confirmed,
            Verdict::Nacked => &mut self.figures.nacked,
            Verdict::Returned { .. } => &mut self.figures.returned,
            Verdict::Refused { .. } => &mut self.figures.refused,
        } += 1;
        match verdict {
            Verdict::Confirmed => Outcome::Delivered,
            Verdict::Nacked => Outcome::Unavailable(NACKED.to_owned()),
            Verdict::Returned { code, text } if self.unroutable == Unroutable::Retry => {
                Outcome::Retry(format!("{code} {text}"))
            }
            Verdict::Returned { code, text } | Verdict::Refused { code, text } => {
                Outcome::Rejected(format!("{code} {text}"))
            }
        }
    }
}

impl Sink for RabbitMq {
    fn publish(&mut self, events: Vec<Arc<Event>>) {
        if let State::Open(publisher) = &mut self.state {
            publisher.publish(events.into_iter().map(Outbound).collect()); // in place: both are a pointer
        }
    }

    async fn next(&mut self) -> Notice {
        loop {
            match &mut self.state {
                State::Open(publisher) => match publisher.next().await {
                    amqp::Notice::Answers(answers) => {
                        // Not when it opens: a broker that accepts a connection may still refuse every message.
                        self.failures = 0;
                        let answer = |amqp::Answer { id, verdict }| Answer { id, outcome: self.outcome(verdict) };
                        return Notice::Answers(answers.into_iter().map(answer).collect());
                    }
                    amqp::Notice::Blocked { reason } => return Notice::Blocked(reason),
                    amqp::Notice::Unblocked => return Notice::Unblocked,
                    amqp::Notice::Lost(error) => return self.lost(&error),
                },
                State::Connecting(attempt) => match attempt.await {
                    Ok(publisher) => {
                        self.state = State::Open(Box::new(publisher));
                        self.figures.reconnects += 1;
                        (self.figures.connected_to, self.figures.error) = (Some(self.config.url.to_string()), None);
                        return Notice::Ready;
                    }
                    Err(error) => return self.lost(&error),
                },
                State::Waiting(until) => {
                    tokio::time::sleep_until((*until).into()).await;
                    self.state = State::Connecting(Box::pin(Publisher::connect(self.config.clone())));
                }
            }
        }
    }

    fn figures(&self) -> SinkFigures {
        self.figures.clone()
    }

    async fn close(self) {
        if let State::Open(publisher) = self.state {
            publisher.close().await;
        }
    }
}

/// The error, its causes, and what to do about it where that is known, in one line.
pub fn explain(error: &PublishError) -> String {
    match error {
        PublishError::ExchangeMismatch { exchange, text } => {
            format!("exchange {exchange:?} is not what the relay declares (topic, durable): {text}; {MISMATCH}")
        }
        PublishError::ExchangeMissing { .. } => format!("{}; {MISSING}", chain(error)),
        _ => chain(error),
    }
}

/// Whether [`explain`] tells the operator how to mend it.
pub fn says_what_to_do(error: &PublishError) -> bool {
    matches!(
        error,
        PublishError::ExchangeMismatch { .. }
            | PublishError::ExchangeMissing { .. }
            | PublishError::MayNotPublish { .. }
            | PublishError::WrongPort { .. }
    )
}
