//! RabbitMQ as a sink: the publisher's connection and its coming back, and what its answers mean.

mod message;
mod refusal;
mod reserved;
#[cfg(feature = "otel")]
mod spans;
#[cfg(not(feature = "otel"))]
#[path = "no_spans.rs"]
mod spans;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use amqp_publisher::{self as amqp, AmqpUrl, ConnectError, ExchangeUse, Peer, PublishConfig, PublishError, Verdict};
use outbox_core::{Absence, Backoff, Event, Notice, Outcome};

use self::refusal::why;
pub use self::{message::Outbound, refusal::explain};
pub(crate) use self::{refusal::end_of_start, spans::Spans};
use super::{Sink, SinkFigures};
use crate::{
    config::{Address, BadFile, Unroutable},
    contact::Contact,
    error::RunError,
};

/// A connection over which events are published.
pub type Publisher = amqp::Publisher<Outbound>;

/// What an event is told that a queue did not take.
pub const NACKED: &str = "the broker refused the message (basic.nack)";

/// Why the relay has given a connection up.
const SILENT: &str = "the broker left messages unanswered while others waited, so the relay connects anew";

/// Pauses between attempts to connect: from a blink to what an operator still accepts after a repair.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(5) };

/// A connection over which the broker has taken a message counts as no more failures than these: the next attempt follows within 0.4 s.
const PROVEN_FAILURES: u32 = 2;

/// After a connection that lived for so long, the next attempt follows at once: another node may be there. After a shorter one it
/// waits, so that a broker that ends each connection is not asked over and over.
const LIVED_FOR: Duration = Duration::from_secs(1);

/// The longest wait before a channel is opened in place of a closed one. It doubles up to here each time that the broker had not
/// counted the closed one off.
const LONGEST_REOPEN: Duration = Duration::from_secs(1);

/// After a connection that lived for so long, as many side channels are asked for as at first: what the broker had still counted is gone.
const CHANNELS_COUNTED_OFF: Duration = Duration::from_secs(3600);

/// One RabbitMQ, by one connection after the other.
pub struct RabbitMq {
    address: Address<AmqpUrl>,
    config: PublishConfig,
    /// Side channels that are asked for at first.
    side_channels: u16,
    unroutable: Unroutable,
    key_headers: bool,
    first: Arc<FirstConnection>,
    state: State,
    absence: Absence,
    failures: u32,
    jitter: fastrand::Rng,
    figures: SinkFigures,
    spans: Spans,
}

enum State {
    /// Since when.
    Open(Box<Publisher>, Instant),
    Connecting(Pin<Box<dyn Future<Output = Result<Publisher, ConnectError>> + Send>>),
    Waiting(Instant),
}

/// The first connection of this process to the broker. When it is made the start is over, and with it two things: the exchange was
/// declared, if it was to be, and from then on it has bindings, which a new one would not have; and no failure ends the relay any more.
#[derive(Debug)]
pub struct FirstConnection {
    was_made: AtomicBool,
    is_waited_for: bool,
    since: Instant,
}

impl FirstConnection {
    /// Not made yet. `is_waited_for`: as long as no host can be reached.
    pub fn new(is_waited_for: bool) -> Self {
        Self { was_made: AtomicBool::new(false), is_waited_for, since: Instant::now() }
    }

    fn was_made(&self) -> bool {
        self.was_made.load(Ordering::Relaxed)
    }

    fn is_given_up(&self, error: &ConnectError, address: &Address<AmqpUrl>) -> bool {
        let is_login = matches!(error.refusal(), Some(PublishError::Authentication { .. }));
        let may_pass = error.may_pass() || (is_login && address.may_change(self.since));
        !(self.was_made() || self.is_waited_for && may_pass)
    }
}

impl RabbitMq {
    /// Connects with the first [`next`](Sink::next).
    pub(crate) fn new(
        address: Address<AmqpUrl>,
        config: PublishConfig,
        unroutable: Unroutable,
        key_headers: bool,
        first: Arc<FirstConnection>,
        spans: Spans,
    ) -> Self {
        let now = Instant::now();
        let (state, absence) = (State::Waiting(now), Absence::Away(now));
        let (jitter, figures) = (fastrand::Rng::new(), SinkFigures::default());
        let side_channels = config.side_channels;
        Self {
            address,
            config,
            side_channels,
            unroutable,
            key_headers,
            first,
            state,
            absence,
            failures: 0,
            jitter,
            figures,
            spans,
        }
    }

    /// Since when there is no connection; `None`: there is one.
    pub fn away_since(&self) -> Option<Instant> {
        self.absence.away_since()
    }

    fn connect(&mut self) -> Result<(), BadFile> {
        self.config.url = self.address.now()?;
        let mut config = self.config.clone();
        if config.exchange_use == ExchangeUse::Declare && self.first.was_made() {
            config.exchange_use = ExchangeUse::Expect;
        }
        self.state = State::Connecting(Box::pin(Publisher::connect(config)));
        Ok(())
    }

    fn connected(&mut self, publisher: Publisher) -> Notice {
        let is_another = self.first.was_made.swap(true, Ordering::Relaxed);
        let contact = Contact::with_broker(&publisher);
        let (host, is_proven) = (contact.peer.clone(), publisher.is_proven());
        let side_channels = usize::from(publisher.side_channels());
        self.figures.reconnects += u64::from(is_another);
        self.spans.connected(publisher.peer());
        (self.figures.connected_to, self.figures.error) = (Some(contact), None);
        let now = Instant::now();
        self.state = State::Open(Box::new(publisher), now);
        self.absence.opened(now);
        Notice::Ready { host, is_proven, side_channels }
    }

    fn not_connected(&mut self, error: &ConnectError) -> Result<Notice, RunError> {
        if self.first.is_given_up(error, &self.address) {
            return Err(end_of_start(error, &self.address));
        }
        if error.failures.iter().any(|failure| is_channel_limit(&failure.cause)) {
            self.use_fewer_channels();
        }
        // What a proof says counts directly after an ending only; and a broker that blocks publishing gives none.
        self.config.prove = false;
        Ok(self.try_again(why(error, &self.address)))
    }

    /// There is no address at the moment.
    fn nowhere(&mut self, bad: BadFile) -> Result<Notice, RunError> {
        if self.first.is_waited_for || self.first.was_made() {
            return Ok(self.try_again(bad.to_string()));
        }
        Err(bad.into())
    }

    fn try_again(&mut self, why: String) -> Notice {
        self.failures = self.failures.saturating_add(1);
        let pause = RECONNECT.delay(self.failures, &mut self.jitter);
        self.state = State::Waiting(Instant::now() + pause);
        self.figures.error = Some(why.clone());
        let since = self.absence.lost(Instant::now());
        Notice::Away { error: why, since, may_be_a_message: false }
    }

    /// The connection to this node, which had lived for so long, is gone.
    fn lost(&mut self, peer: &Peer, lived: Duration, is_proven: bool, error: &PublishError) -> Notice {
        let now = Instant::now();
        let since = self.absence.lost(now);
        if since == now {
            self.failures = 0; // it had taken messages, or lived for long enough
        }
        if lived >= CHANNELS_COUNTED_OFF {
            self.config.side_channels = self.side_channels;
        }
        if is_proven {
            self.failures = self.failures.min(PROVEN_FAILURES); // it takes messages, and others wait
        }
        let at_once = self.failures == 0 && lived >= LIVED_FOR;
        self.failures = self.failures.saturating_add(1);
        let pause = if at_once { Duration::ZERO } else { RECONNECT.delay(self.failures, &mut self.jitter) };
        self.state = State::Waiting(now + pause);
        (self.config.try_first, self.config.try_last) = (None, Some(peer.address));
        let why = format!("{peer}: {}", explain(error));
        self.spans.lost(&why);
        (self.figures.connected_to, self.figures.error) = (None, Some(why.clone()));
        if is_channel_limit(error) {
            self.use_fewer_channels();
        }
        // Whether the broker takes messages at all, the next connection has to show, before anything is thought of this one's.
        self.config.prove = error.may_be_a_message();
        Notice::Away { error: why, since, may_be_a_message: self.config.prove }
    }

    /// The user may not have as many channels as were opened, or a closed one still counts.
    fn use_fewer_channels(&mut self) {
        self.config.side_channels /= 2;
        self.config.reopen_after = (2 * self.config.reopen_after).min(LONGEST_REOPEN);
    }

    fn outcome(&mut self, verdict: Verdict) -> Outcome {
        *match &verdict {
            Verdict::Confirmed => &mut self.figures.confirmed,
            Verdict::Nacked => &mut self.figures.nacked,
            Verdict::Returned { .. } => &mut self.figures.returned,
            Verdict::Refused { .. } => &mut self.figures.rejected,
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

fn is_channel_limit(error: &PublishError) -> bool {
    matches!(error, PublishError::ChannelLimit(_))
}

impl Sink for RabbitMq {
    fn publish(&mut self, events: Vec<Arc<Event>>) {
        if let State::Open(publisher, _) = &mut self.state {
            // Without OpenTelemetry in place: both are a pointer.
            let outbound = |event| self.spans.outbound(event).telling_key(self.key_headers);
            publisher.publish(events.into_iter().map(outbound).collect());
        }
    }

    fn publish_beside(&mut self, events: Vec<Arc<Event>>) {
        if let State::Open(publisher, _) = &mut self.state {
            for event in events {
                publisher.publish_beside(self.spans.outbound(event).telling_key(self.key_headers));
            }
        }
    }

    fn connect_anew(&mut self) {
        let now = Instant::now();
        if let State::Open(publisher, _) = std::mem::replace(&mut self.state, State::Waiting(now)) {
            // The others may be the ones that are down, and that cost a time limit each.
            self.config.try_first = Some(publisher.peer().clone());
            (self.config.try_last, self.config.prove) = (None, false);
            self.spans.lost(SILENT);
            (self.figures.connected_to, self.figures.error) = (None, Some(SILENT.to_owned()));
            self.absence.lost(now);
        }
    }

    async fn next(&mut self) -> Result<Notice, RunError> {
        loop {
            match &mut self.state {
                State::Open(publisher, since) => match publisher.next().await {
                    amqp::Notice::Answers(answers) => {
                        // Not when it opens: a broker that accepts a connection may still refuse every message.
                        self.failures = 0;
                        self.absence.answered();
                        let outcome = |amqp::Answer { id, verdict }| {
                            self.spans.answered(id, &verdict);
                            (id, self.outcome(verdict))
                        };
                        return Ok(Notice::Outcomes(answers.into_iter().map(outcome).collect()));
                    }
                    amqp::Notice::Blocked { reason } => return Ok(Notice::Blocked(reason)),
                    amqp::Notice::Unblocked => return Ok(Notice::Unblocked),
                    amqp::Notice::Lost(error) => {
                        let (peer, lived) = (publisher.peer().clone(), since.elapsed());
                        let is_proven = publisher.is_proven();
                        return Ok(self.lost(&peer, lived, is_proven, &error));
                    }
                },
                State::Connecting(attempt) => {
                    return match attempt.await {
                        Ok(publisher) => Ok(self.connected(publisher)),
                        Err(error) => self.not_connected(&error),
                    };
                }
                State::Waiting(until) => {
                    tokio::time::sleep_until((*until).into()).await;
                    if let Err(bad) = self.connect() {
                        return self.nowhere(bad);
                    }
                }
            }
        }
    }

    fn figures(&self) -> SinkFigures {
        self.figures.clone()
    }

    async fn close(self) {
        if let State::Open(publisher, _) = self.state {
            publisher.close().await;
        }
    }
}
