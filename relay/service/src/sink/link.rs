//! The connection to a broker, which is made again when it is lost. [`Connect`] contains what differs between brokers.
//!
//! ```text
//!  Waiting ──▶ Connecting ──▶ Open
//!     ▲            │           │
//!     └── failed ──┴── lost ───┘   after a pause, which grows with each failure in a row
//! ```

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use outbox_core::{Abilities, Absence, Backoff, Event, Notice, Older};

use super::{
    Answers, BrokerKind, Sink, SinkFigures,
    connect::{Attempt, Connect, Failed, Heard, Lost, Opened},
};
use crate::{address::BadFile, error::RunError, peer::ServerPeer};

/// Pauses between attempts to connect: short at first, and at most as long as an operator accepts after a repair.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(5) };

/// Most failures that still count after a connection over which the broker has taken a message, so that the next
/// attempt follows within 0.4 s.
const PROVEN_FAILURES: u32 = 2;

/// After a connection of at least this length, the next attempt follows at once, because another node may be available.
/// After a shorter one it waits, so that a broker that ends each connection is not asked over and over.
const LIVED_FOR: Duration = Duration::from_secs(1);

/// The reason shown when the relay gives a connection up.
const SILENT: &str = "the broker left messages unanswered while others waited, so the relay connects anew";

/// The first connection of this process to the broker; with it, the broker's startup is over. No failure ends the relay
/// any more, and the exchange is not declared again, because a new exchange would lack the bindings of the old one.
#[derive(Debug)]
pub(crate) struct FirstConnection {
    was_made: AtomicBool,
    is_waited_for: bool,
    since: Instant,
}

impl FirstConnection {
    /// A connection that was not made yet. `is_waited_for`: the startup waits while no host can be reached.
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

/// A broker over one connection after the other.
pub(crate) struct Link<C: Connect> {
    broker: C,
    first: Arc<FirstConnection>,
    state: State<C>,
    absence: Absence,
    /// Attempts that failed in a row, and connections that ended without an answer.
    failures: u32,
    jitter: fastrand::Rng,
    connected_to: Option<ServerPeer>,
    error: Option<String>,
    reconnects: u64,
    answers: Answers,
}

enum State<C: Connect> {
    /// Connected since this time.
    Open(C::Connection, Instant),
    Connecting(Attempt<C>),
    /// Pausing until this time.
    Waiting(Instant),
}

impl<C: Connect> Link<C> {
    /// A link without a connection; the first [`next`](Sink::next) connects.
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
            answers: Answers::new(C::KIND),
        }
    }

    /// As [`Connect::begin`].
    pub(crate) fn begin(&mut self, name: String) {
        self.broker.begin(name);
    }

    /// Since when the broker has been away; `None`: it takes messages.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        self.absence.away_since()
    }

    fn opened(&mut self, connection: C::Connection) -> Notice {
        let is_another = self.first.was_made.swap(true, Ordering::Relaxed);
        let Opened { peer, is_proven, is_new_identity, side_channels } = self.broker.opened(&connection);
        let host = peer.description.clone();
        self.reconnects += u64::from(is_another);
        (self.connected_to, self.error) = (Some(peer), None);
        let now = Instant::now();
        self.state = State::Open(connection, now);
        self.absence.opened(now);
        Notice::Ready { host, is_proven, is_new_identity, side_channels }
    }

    fn failed(&mut self, error: &C::Error) -> Result<Notice, RunError> {
        let Failed { why, is_transient } = self.broker.failed(error, self.first.since);
        if self.first.is_given_up(is_transient) {
            Err(self.broker.end_of_start(error))
        } else {
            Ok(self.try_again(why))
        }
    }

    /// Handles a file that contains no address at the moment.
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
            self.failures = 0; // the broker had taken messages, or the connection had lasted for long enough
        } else if was_proven {
            self.failures = self.failures.min(PROVEN_FAILURES); // the broker takes messages, so a retry is worthwhile
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
    fn kind(&self) -> &'static BrokerKind {
        C::KIND
    }

    fn abilities(&self) -> Abilities {
        self.broker.abilities()
    }

    fn read_back(&mut self, since_us: Option<i64>, older: Older) {
        self.broker.read_back(since_us, older);
    }

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
                    Heard::Answers(answers) => {
                        // An open connection does not reset the failures, because the broker may take no message.
                        self.failures = 0;
                        self.absence.answered();
                        return Ok(Notice::Outcomes(self.answers.count(answers)));
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
            answers: self.answers.clone(),
        }
    }

    async fn close(self) {
        if let State::Open(connection, _) = self.state {
            C::close(connection).await;
        }
    }
}
