//! The connection to a broker: made, lost, and made again. What only one broker knows it says through [`Connect`].
//!
//! ```text
//!  Waiting ──▶ Connecting ──▶ Open
//!     ▲            │           │
//!     └── failed ──┴── lost ───┘   after a pause, which grows with each failure in a row
//! ```

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use outbox_core::{Absence, Backoff, Event, Notice, Outcome};
use uuid::Uuid;

use super::{Sink, SinkFigures};
use crate::{address::BadFile, error::RunError, peer::ServerPeer};

/// Pauses between attempts to connect: from a blink to what an operator still accepts after a repair.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(5) };

/// After a connection over which the broker has taken a message, the failures before it count as no more than these: the next
/// attempt follows within 0.4 s.
const PROVEN_FAILURES: u32 = 2;

/// After a connection that lived for so long, the next attempt follows at once: another node may be there. After a shorter
/// connection it waits, so that a broker that ends each connection is not asked over and over.
const LIVED_FOR: Duration = Duration::from_secs(1);

/// Why the relay gives a connection up.
const SILENT: &str = "the broker left messages unanswered while others waited, so the relay connects anew";

/// A connection under way.
pub(crate) type Attempt<C> =
    Pin<Box<dyn Future<Output = Result<<C as Connect>::Connection, <C as Connect>::Error>> + Send>>;

/// How one kind of broker is connected to, and what it says.
pub(crate) trait Connect: Send {
    /// An open connection.
    type Connection: Send;
    /// Why no connection was made.
    type Error: Send;
    /// Why a connection has ended.
    type Loss: Send;

    /// Begins to connect. `is_first`: this process has not been connected before.
    ///
    /// # Errors
    ///
    /// There is no address at the moment.
    fn connect(&mut self, is_first: bool) -> Result<Attempt<Self>, BadFile>;

    /// A connection is open.
    fn opened(&mut self, connection: &Self::Connection) -> Opened;

    /// No connection was made. `since`: when this process first tried.
    fn failed(&mut self, error: &Self::Error, since: Instant) -> Failed;

    /// The error with which the relay ends, if this one comes at the start and is not waited for.
    fn end_of_start(&self, error: &Self::Error) -> RunError;

    /// Waits for what the broker says. Cancellation-safe.
    fn next(&mut self, connection: &mut Self::Connection) -> impl Future<Output = Heard<Self::Loss>> + Send;

    /// The connection has ended by itself, after so long.
    fn lost(&mut self, connection: Self::Connection, loss: &Self::Loss, lived: Duration) -> Lost;

    /// The connection is given up, for this reason.
    fn given_up(&mut self, connection: Self::Connection, why: &'static str);

    /// Hands events over, to be published in order. Never waits.
    fn publish(&mut self, connection: &mut Self::Connection, events: Vec<Arc<Event>>);

    /// Hands events over, each to be published where no other waits behind it. Never waits.
    fn publish_beside(&mut self, connection: &mut Self::Connection, events: Vec<Arc<Event>>);

    /// What the broker has answered so far, as the parts of [`SinkFigures`] that count answers.
    fn answers(&self) -> SinkFigures;

    /// Says goodbye to the broker.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

/// A connection that was made.
pub(crate) struct Opened {
    pub(crate) peer: ServerPeer,
    /// Whether the broker has taken a message over the connection already.
    pub(crate) is_proven: bool,
    /// Number of side channels that the connection has.
    pub(crate) side_channels: usize,
}

/// A connection that was not made.
pub(crate) struct Failed {
    /// Which hosts, and why, in one line.
    pub(crate) why: String,
    /// Whether another attempt may succeed.
    pub(crate) is_transient: bool,
}

/// A connection that has ended.
pub(crate) struct Lost {
    /// Which node, and why, in one line.
    pub(crate) why: String,
    /// A message that was in flight may be the reason.
    pub(crate) may_be_a_message: bool,
    /// The broker had taken a message over it when it opened.
    pub(crate) was_proven: bool,
}

/// What a broker says.
pub(crate) enum Heard<L> {
    /// What has become of messages.
    Outcomes(Vec<(Uuid, Outcome)>),
    /// It takes no messages for a while, for this reason.
    Blocked(String),
    /// It takes messages again.
    Unblocked,
    /// The connection has ended.
    Lost(L),
}

/// The first connection of this process to the broker. Once it is made, the start is over: what is declared at the start was declared
/// and has bindings from then on, which a new exchange would not have; and no failure ends the relay any more.
#[derive(Debug)]
pub(crate) struct FirstConnection {
    was_made: AtomicBool,
    is_waited_for: bool,
    since: Instant,
}

impl FirstConnection {
    /// Not made yet. `is_waited_for`: as long as no host can be reached.
    pub(crate) fn new(is_waited_for: bool) -> Self {
        Self { was_made: AtomicBool::new(false), is_waited_for, since: Instant::now() }
    }

    fn was_made(&self) -> bool {
        self.was_made.load(Ordering::Relaxed)
    }

    fn is_given_up(&self, is_transient: bool) -> bool {
        !(self.was_made() || self.is_waited_for && is_transient)
    }
}

/// A broker, by one connection after the other.
pub(crate) struct Link<C: Connect> {
    broker: C,
    first: Arc<FirstConnection>,
    state: State<C>,
    absence: Absence,
    /// Attempts in a row that failed, and connections that ended without an answer.
    failures: u32,
    jitter: fastrand::Rng,
    connected_to: Option<ServerPeer>,
    error: Option<String>,
    reconnects: u64,
}

enum State<C: Connect> {
    /// Since when.
    Open(C::Connection, Instant),
    Connecting(Attempt<C>),
    /// Until when.
    Waiting(Instant),
}

impl<C: Connect> Link<C> {
    /// Connects with the first [`next`](Sink::next).
    pub(crate) fn new(broker: C, first: Arc<FirstConnection>) -> Self {
        let now = Instant::now();
        Self {
            broker,
            first,
            state: State::Waiting(now),
            absence: Absence::Away(now),
            failures: 0,
            jitter: fastrand::Rng::new(),
            connected_to: None,
            error: None,
            reconnects: 0,
        }
    }

    /// Since when there is no connection; `None`: there is one.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        self.absence.away_since()
    }

    fn opened(&mut self, connection: C::Connection) -> Notice {
        let is_another = self.first.was_made.swap(true, Ordering::Relaxed);
        let Opened { peer, is_proven, side_channels } = self.broker.opened(&connection);
        let host = peer.description.clone();
        self.reconnects += u64::from(is_another);
        (self.connected_to, self.error) = (Some(peer), None);
        let now = Instant::now();
        self.state = State::Open(connection, now);
        self.absence.opened(now);
        Notice::Ready { host, is_proven, side_channels }
    }

    fn failed(&mut self, error: &C::Error) -> Result<Notice, RunError> {
        let Failed { why, is_transient } = self.broker.failed(error, self.first.since);
        if self.first.is_given_up(is_transient) {
            Err(self.broker.end_of_start(error))
        } else {
            Ok(self.try_again(why))
        }
    }

    /// There is no address at the moment.
    fn nowhere(&mut self, bad: BadFile) -> Result<Notice, RunError> {
        if self.first.is_given_up(true) { Err(bad.into()) } else { Ok(self.try_again(bad.to_string())) }
    }

    fn try_again(&mut self, why: String) -> Notice {
        let now = Instant::now();
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(now + RECONNECT.delay(self.failures, &mut self.jitter));
        self.error = Some(why.clone());
        Notice::Away { error: why, since: self.absence.lost(now), may_be_a_message: false }
    }

    fn lost(&mut self, loss: &C::Loss) -> Option<Notice> {
        let now = Instant::now();
        let State::Open(connection, opened) = std::mem::replace(&mut self.state, State::Waiting(now)) else {
            return None;
        };
        let lived = now.duration_since(opened);
        let Lost { why, may_be_a_message, was_proven } = self.broker.lost(connection, loss, lived);
        let since = self.absence.lost(now);
        if since == now {
            self.failures = 0; // the broker had taken messages, or the connection had lived for long enough
        } else if was_proven {
            self.failures = self.failures.min(PROVEN_FAILURES); // it takes messages, and others wait
        }
        let at_once = self.failures == 0 && lived >= LIVED_FOR;
        self.failures = self.failures.saturating_add(1);
        if !at_once {
            self.state = State::Waiting(now + RECONNECT.delay(self.failures, &mut self.jitter));
        }
        (self.connected_to, self.error) = (None, Some(why.clone()));
        Some(Notice::Away { error: why, since, may_be_a_message })
    }
}

impl<C: Connect> Sink for Link<C> {
    fn publish(&mut self, events: Vec<Arc<Event>>) {
        if let State::Open(connection, _) = &mut self.state {
            self.broker.publish(connection, events);
        }
    }

    fn publish_beside(&mut self, events: Vec<Arc<Event>>) {
        if let State::Open(connection, _) = &mut self.state {
            self.broker.publish_beside(connection, events);
        }
    }

    fn connect_anew(&mut self) {
        let now = Instant::now();
        if let State::Open(connection, _) = std::mem::replace(&mut self.state, State::Waiting(now)) {
            self.broker.given_up(connection, SILENT);
            (self.connected_to, self.error) = (None, Some(SILENT.to_owned()));
            self.absence.lost(now);
        }
    }

    async fn next(&mut self) -> Result<Notice, RunError> {
        loop {
            match &mut self.state {
                State::Open(connection, _) => match self.broker.next(connection).await {
                    Heard::Outcomes(outcomes) => {
                        // Not when it opens: a broker that accepts a connection may still refuse every message.
                        self.failures = 0;
                        self.absence.answered();
                        return Ok(Notice::Outcomes(outcomes));
                    }
                    Heard::Blocked(reason) => return Ok(Notice::Blocked(reason)),
                    Heard::Unblocked => return Ok(Notice::Unblocked),
                    Heard::Lost(loss) => {
                        if let Some(notice) = self.lost(&loss) {
                            return Ok(notice);
                        }
                    }
                },
                State::Connecting(attempt) => {
                    return match attempt.await {
                        Ok(connection) => Ok(self.opened(connection)),
                        Err(error) => self.failed(&error),
                    };
                }
                State::Waiting(until) => {
                    tokio::time::sleep_until((*until).into()).await;
                    match self.broker.connect(!self.first.was_made()) {
                        Ok(attempt) => self.state = State::Connecting(attempt),
                        Err(bad) => return self.nowhere(bad),
                    }
                }
            }
        }
    }

    fn figures(&self) -> SinkFigures {
        SinkFigures {
            connected_to: self.connected_to.clone(),
            error: self.error.clone(),
            reconnects: self.reconnects,
            ..self.broker.answers()
        }
    }

    async fn close(self) {
        if let State::Open(connection, _) = self.state {
            C::close(connection).await;
        }
    }
}
