//! The connection to the broker, and its coming back.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_publisher::{Answer, ExchangeUse, Notice, PublishConfig, PublishError};

use crate::{dispatch::Retry, event::Event, sink::rabbitmq::Publisher};

/// Pauses between attempts to connect: from a blink to what an operator still accepts after a repair.
const RECONNECT: Retry =
    Retry { base: Duration::from_millis(100), max: Duration::from_secs(5), max_attempts: u32::MAX };

pub(super) struct Link {
    config: PublishConfig,
    state: State,
    failures: u32,
    blocked: bool,
    away_since: Option<Instant>,
    /// The `away_since` before the connection that is open now, which has not answered anything yet; and when it opened.
    unproven: Option<(Instant, Instant)>,
}

enum State {
    Open(Box<Publisher>),
    Connecting(Pin<Box<dyn Future<Output = Result<Publisher, PublishError>> + Send>>),
    Waiting(Instant),
}

/// What the broker's side has to say.
pub(super) enum News {
    /// For so long there was no connection.
    Opened {
        away: Duration,
    },
    Answers(Vec<Answer>),
    Blocked(String),
    Unblocked,
    /// The connection is gone, or could not be made; another attempt follows. There has been none since then.
    Away {
        error: PublishError,
        since: Instant,
    },
}

impl Link {
    /// The exchange was declared at the start, if it was to be. From then on it has bindings, which a new one would not have.
    pub(super) fn new(mut config: PublishConfig, publisher: Option<Publisher>) -> Self {
        if config.exchange_use == ExchangeUse::Declare {
            config.exchange_use = ExchangeUse::Expect;
        }
        let now = Instant::now();
        let (state, away_since) = match publisher {
            Some(publisher) => (State::Open(Box::new(publisher)), None),
            None => (State::Waiting(now), Some(now)),
        };
        Self { config, state, failures: 0, blocked: false, away_since, unproven: None }
    }

    /// Whether events may be published now.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_)) && !self.blocked
    }

    /// Since when nothing could be published.
    pub(super) fn away_since(&self) -> Option<Instant> {
        self.away_since
    }

    pub(super) fn publish(&mut self, batch: Vec<Arc<Event>>) {
        if let State::Open(publisher) = &mut self.state {
            publisher.publish(batch);
        }
    }

    /// Waits for news; reconnects meanwhile. Cancellation-safe: all state stays in `self`.
    pub(super) async fn next(&mut self) -> News {
        loop {
            match &mut self.state {
                State::Open(publisher) => match publisher.next().await {
                    Notice::Answers(answers) => {
                        // Not when it opens: a broker that accepts a connection may still refuse every message.
                        self.failures = 0;
                        self.unproven = None;
                        return News::Answers(answers);
                    }
                    Notice::Blocked { reason } => {
                        self.blocked = true;
                        self.away_since.get_or_insert_with(Instant::now);
                        return News::Blocked(reason);
                    }
                    Notice::Unblocked => {
                        self.blocked = false;
                        self.away_since = None;
                        return News::Unblocked;
                    }
                    Notice::Lost(error) => return self.lost(error),
                },
                State::Connecting(attempt) => match attempt.await {
                    Ok(publisher) => {
                        self.state = State::Open(Box::new(publisher));
                        let now = Instant::now();
                        self.unproven = self.away_since.take().map(|since| (since, now));
                        let away = self.unproven.map_or(Duration::ZERO, |(since, _)| now.duration_since(since));
                        return News::Opened { away };
                    }
                    Err(error) => return self.lost(error),
                },
                State::Waiting(until) => {
                    tokio::time::sleep_until((*until).into()).await;
                    self.state = State::Connecting(Box::pin(Publisher::connect(self.config.clone())));
                }
            }
        }
    }

    pub(super) async fn close(self) {
        if let State::Open(publisher) = self.state {
            publisher.close().await;
        }
    }

    fn lost(&mut self, error: PublishError) -> News {
        let now = Instant::now();
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(now + RECONNECT.delay(self.failures));
        self.blocked = false;
        // A broker that lets the relay in and refuses what it publishes has never been back.
        let proves_nothing = |opened: Instant| now.duration_since(opened) < RECONNECT.max;
        let since = self.unproven.take().filter(|(_, opened)| proves_nothing(*opened)).map_or(now, |(since, _)| since);
        let since = *self.away_since.get_or_insert(since);
        News::Away { error, since }
    }
}
