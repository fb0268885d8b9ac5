//! The relay's state and figures at one moment.

use std::time::{Duration, Instant};

use outbox_core::{Counts, Figures};

use crate::{
    peer::ServerPeer,
    sink::{BrokerKind, SinkFigures},
};

/// The service's phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The relay has no session, and connects.
    Disconnected {
        /// Why the last session or attempt ended; `None`: this is the first attempt.
        error: Option<String>,
    },
    /// Another relay is at work; this one is its standby, connected to the database.
    Standby,
    /// A session is at work.
    AtWork,
    /// The relay has ended.
    Stopped,
}

/// The relay's state, under the name that the log uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Events come from the stream.
    Streaming,
    /// Events wait in the table, or are published from there.
    Parked,
    /// The broker takes no message.
    Unavailable,
    /// Another relay is at work.
    Standby,
    /// The relay has no session with the database.
    Disconnected,
    /// Events in flight are finished, and no further events are taken.
    Draining,
    /// The relay has ended.
    Stopped,
}

impl State {
    /// All states with their names.
    pub const ALL: [(Self, &str); 7] = [
        (Self::Streaming, "streaming"),
        (Self::Parked, "parked"),
        (Self::Unavailable, "unavailable"),
        (Self::Standby, "standby"),
        (Self::Disconnected, "disconnected"),
        (Self::Draining, "draining"),
        (Self::Stopped, "stopped"),
    ];
}

/// The figures that a session publishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) figures: Figures,
    pub(crate) sink: SinkFigures,
    /// Since when PostgreSQL has not answered a request on the stream; `None`: no answer is missing.
    pub(crate) silent_since: Option<Instant>,
    /// Whether the table is read because the slot is being created, or because the publication's repair was refused.
    pub(crate) is_making_slot: bool,
    /// What the session waits for meanwhile, as a sentence.
    pub(crate) waits_for: Option<String>,
}

/// Counts of retention since the relay's start.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Number of deleted events.
    pub deleted: u64,
    /// Number of failed rounds through the table.
    pub failures: u64,
    /// Old events that stay, because they hold their keys or their deletion was refused; `None`: no round has ended.
    pub kept_back: Option<i64>,
}

/// The relay's state and figures at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The kind of broker that this relay publishes to.
    pub broker: &'static BrokerKind,
    /// The service's phase.
    pub phase: Phase,
    /// When the phase began.
    pub phase_since: Instant,
    /// The database's host; `None`: there is no connection.
    pub database: Option<ServerPeer>,
    /// Figures of the current session; its counts include earlier sessions.
    pub figures: Figures,
    /// Figures of the connection to the broker; its counts include earlier sessions.
    pub sink: SinkFigures,
    /// Since when PostgreSQL has not answered a request on the stream; `None`: no answer is missing.
    pub silent_since: Option<Instant>,
    /// Whether the table is read because the slot is being created, or because the publication's repair was refused.
    pub is_making_slot: bool,
    /// What the session waits for meanwhile, as a sentence.
    pub waits_for: Option<String>,
    /// Number of slots that were over their limit and were dropped.
    pub slots_dropped: u64,
    /// Counts of retention.
    pub retention: Retention,
    /// Since when messages are in flight without any answer from the broker; `None`: none is in flight, or one was
    /// answered.
    pub unanswered_since: Option<Instant>,
    /// Number of sessions so far.
    pub sessions: u64,
    /// When the relay's state began.
    pub state_since: Instant,
    state: State,
    past: Counts,
    sink_past: SinkFigures,
}

impl View {
    pub(super) fn new(broker: &'static BrokerKind, now: Instant) -> Self {
        Self {
            broker,
            phase: Phase::Disconnected { error: None },
            phase_since: now,
            database: None,
            figures: Figures::default(),
            sink: SinkFigures::new(broker),
            silent_since: None,
            is_making_slot: false,
            waits_for: None,
            slots_dropped: 0,
            retention: Retention::default(),
            unanswered_since: None,
            sessions: 0,
            state_since: now,
            state: State::Disconnected,
            past: Counts::default(),
            sink_past: SinkFigures::default(),
        }
    }

    /// The relay's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Time at `now` since which nothing could be published; `None`: events are published, or no session is at work.
    pub fn away_for(&self, now: Instant) -> Option<Duration> {
        (self.phase == Phase::AtWork).then_some(self.figures.away_since?).map(|since| now.duration_since(since))
    }

    /// Bytes of the WAL that were read and are not acknowledged yet.
    pub fn behind_bytes(&self) -> u64 {
        self.figures.read_to.0.saturating_sub(self.figures.acknowledged.0)
    }

    pub(super) fn enters(&mut self, phase: Phase, now: Instant) {
        match phase {
            Phase::AtWork => self.sessions += 1,
            Phase::Standby => {}
            Phase::Disconnected { .. } | Phase::Stopped => self.database = None,
        }
        let is_same = std::mem::discriminant(&phase) == std::mem::discriminant(&self.phase);
        if !is_same {
            self.phase_since = now;
        }
        self.phase = phase;
        self.settle_state(now);
    }

    pub(super) fn publish(&mut self, shown: Shown, now: Instant) {
        let Shown { figures, sink, silent_since, is_making_slot, waits_for } = shown;
        (self.is_making_slot, self.waits_for) = (is_making_slot, waits_for);
        let sink = sink.after(&self.sink_past);
        let is_unanswered = figures.in_flight > 0 && sink.answers.total() == self.sink.answers.total();
        self.unanswered_since = is_unanswered.then(|| self.unanswered_since.unwrap_or(now));
        self.silent_since = silent_since;
        self.figures = Figures { counts: sum(&self.past, &figures.counts), ..figures };
        self.sink = sink;
        self.settle_state(now);
    }

    pub(super) fn session_ended(&mut self) {
        self.past = self.figures.counts;
        self.figures = Figures { counts: self.past, ..Figures::default() };
        self.sink_past = self.sink.clone();
        self.sink.connected_to = None;
        (self.silent_since, self.unanswered_since) = (None, None);
        (self.is_making_slot, self.waits_for) = (false, None);
    }

    fn settle_state(&mut self, now: Instant) {
        let state = self.name_state();
        if std::mem::replace(&mut self.state, state) != state {
            self.state_since = now;
        }
    }

    fn name_state(&self) -> State {
        match &self.phase {
            Phase::Disconnected { .. } => State::Disconnected,
            Phase::Standby => State::Standby,
            Phase::Stopped => State::Stopped,
            Phase::AtWork if self.figures.is_draining => State::Draining,
            Phase::AtWork if self.figures.unavailable_since.is_some() => State::Unavailable,
            Phase::AtWork if self.figures.is_live => State::Streaming,
            Phase::AtWork => State::Parked,
        }
    }
}

fn sum(past: &Counts, current: &Counts) -> Counts {
    let mut sum = *past;
    sum.add(current);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::{ANY, Answers};

    fn shown(figures: Figures, sink: SinkFigures) -> Shown {
        Shown { figures, sink, ..Shown::default() }
    }

    fn answered(count: u64) -> SinkFigures {
        SinkFigures { answers: Answers::delivered(count), ..SinkFigures::default() }
    }

    fn sent(sent: u64) -> Figures {
        Figures { counts: Counts { sent, ..Counts::default() }, is_live: true, ..Figures::default() }
    }

    #[test]
    fn counts_go_on_from_session_to_session_and_nothing_else_does() {
        let now = Instant::now();
        let mut view = View::new(&ANY, now);
        view.enters(Phase::AtWork, now);
        view.publish(shown(sent(3), answered(4)), now);
        view.publish(shown(sent(5), answered(6)), now);
        view.session_ended();
        view.enters(Phase::Disconnected { error: Some("lost".to_owned()) }, now);
        assert_eq!((view.figures.counts.sent, view.sink.answers.total(), view.figures.is_live), (5, 6, false));
        view.enters(Phase::AtWork, now);
        view.publish(shown(sent(2), answered(1)), now);
        assert_eq!((view.figures.counts.sent, view.sink.answers.total(), view.sessions), (7, 7, 2));
    }

    #[test]
    fn the_state_is_what_the_session_does() {
        let now = Instant::now();
        let mut view = View::new(&ANY, now);
        assert_eq!(view.state(), State::Disconnected);
        view.enters(Phase::Standby, now);
        assert_eq!(view.state(), State::Standby);
        view.enters(Phase::AtWork, now);
        assert_eq!(view.state(), State::Parked, "a session begins parked");
        view.publish(shown(sent(0), SinkFigures::default()), now);
        assert_eq!(view.state(), State::Streaming);
        view.publish(shown(Figures { unavailable_since: Some(now), ..sent(0) }, SinkFigures::default()), now);
        assert_eq!(view.state(), State::Unavailable);
        view.publish(shown(Figures { is_draining: true, ..sent(0) }, SinkFigures::default()), now);
        assert_eq!(view.state(), State::Draining);
    }

    #[test]
    fn messages_that_nobody_answers_are_noticed_and_every_answer_begins_anew() {
        let began = Instant::now();
        let mut view = View::new(&ANY, began);
        view.enters(Phase::AtWork, began);
        let mut publish = |in_flight: usize, confirmed: u64, after: u64| {
            let now = began + Duration::from_secs(after);
            view.publish(shown(Figures { in_flight, ..sent(0) }, answered(confirmed)), now);
            view.unanswered_since.map(|since| now.duration_since(since).as_secs())
        };
        assert_eq!(publish(0, 0, 1), None);
        assert_eq!(publish(5, 0, 2), Some(0));
        assert_eq!(publish(9, 0, 7), Some(5));
        assert_eq!(publish(8, 1, 9), None);
        assert_eq!(publish(8, 1, 10), Some(0));
        assert_eq!(publish(0, 9, 11), None);
    }
}
