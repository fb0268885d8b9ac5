//! The broker's side of a session: its connection, the messages that it publishes, and the answers that come back.

use std::sync::Arc;

use outbox_core::{Event, Input, Notice, Ordering, SIDE_CHANNELS};

use crate::{
    agenda::What,
    broker::{Publisher, Sent, Stepped},
    world::{World, micros},
};

impl World {
    /// The sink tries to connect.
    pub(crate) fn connect(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let proves = self.session(relay, id).is_some_and(|session| session.proves);
        let side_channels = if self.knobs.abilities.ordered { 0 } else { SIDE_CHANNELS };
        let is_up = self.broker.is_up && (!proves || self.broker.answers_a_proof());
        let connection = if is_up { Some(self.broker.open()) } else { None };
        let Some(session) = self.session(relay, id) else { return };
        assert_eq!(session.connection, None, "a sink has one connection");
        session.connection = connection;
        session.connects += 1;
        let (number, known) = (session.id, session.identity);
        let identity = if is_up { self.identify(known) } else { known };
        if let Some(open) = connection.and_then(|connection| self.broker.connections.get_mut(&connection)) {
            let keeps_order = self.knobs.config.policy.ordering != Ordering::None;
            open.publisher = Publisher::new(number, identity.unwrap_or_default(), keeps_order);
        }
        let Some(session) = self.session(relay, id) else { return };
        session.identity = identity;
        if is_up {
            session.absence.opened(now.instant);
        }
        let most = (100_000_u64 << session.connects.min(6)).min(5_000_000);
        let ready = Notice::Ready {
            host: "broker".to_owned(),
            is_proven: proves,
            is_new_identity: identity != known,
            side_channels,
        };
        let away = |since| Notice::Away { error: "refused".to_owned(), since, may_be_a_message: false };
        let notice = if is_up { ready } else { away(session.absence.lost(now.instant)) };
        session.core.on(Input::Sink(notice), now);
        self.log_relay(relay, || format!("connects to the broker: {}", if is_up { "open" } else { "refused" }));
        if !is_up {
            let pause = self.dice.network.u64(50_000..=most);
            self.later(pause, What::Connect(relay, id));
        }
        self.turn(relay);
    }

    /// The session hands events to its connection.
    pub(super) fn publish(&mut self, relay: usize, batch: Vec<Arc<Event>>, beside: Vec<Arc<Event>>) {
        let numbers = |events: &[Arc<Event>]| events.iter().map(|event| event.seq).collect::<Vec<i64>>();
        self.log_relay(relay, || format!("publishes {:?}, and {:?} beside", numbers(&batch), numbers(&beside)));
        self.check_publishes(relay);
        self.check_sizes(batch.iter().chain(&beside));
        self.check_rate(relay, batch.len() + beside.len());
        let Some(connection) = self.relays[relay].session.as_ref().and_then(|session| session.connection) else {
            return;
        };
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        if self.knobs.abilities.ordered {
            return self.send_in_order(relay, connection, batch.into_iter().chain(beside));
        }
        open.unanswered.extend(batch.iter().cloned());
        let sent = |event| Sent { event, at: 0, generation: 0 };
        open.on_the_way.extend(batch.into_iter().map(sent));
        open.on_side_channels.extend(beside.into_iter().map(sent));
        self.schedule_step(connection);
    }

    /// The session gives up a connection that no longer moves, and opens another.
    pub(super) fn connect_anew(&mut self, relay: usize, id: u64) {
        let now = self.clocks().instant;
        let Some(session) = self.session(relay, id) else { return };
        session.proves = false;
        session.absence.lost(now);
        if let Some(connection) = session.connection.take() {
            self.broker.connections.remove(&connection);
            self.checker.disruptions += 1;
        }
        self.log_relay(relay, || "connects anew".to_owned());
        self.later(0, What::Connect(relay, id));
    }

    /// Schedules the connection's next messages, if there are any.
    pub(crate) fn schedule_step(&mut self, connection: u64) {
        let way = self.way();
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        let is_next = !open.on_side_channels.is_empty() || !open.on_the_way.is_empty() && !open.is_stuck;
        if !open.is_stepping && is_next {
            open.is_stepping = true;
            self.later(way, What::Step(connection));
        }
    }

    /// The connection's next messages reach the broker.
    pub(crate) fn step_connection(&mut self, connection: u64) {
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        open.is_stepping = false;
        let at_a_time = self.dice.some(1..=5);
        for _ in 0..at_a_time {
            match self.broker.step(connection, self.knobs.unroutable_is_retried, self.now) {
                Stepped::Accepted(seq, earlier) => self.accepted(seq, connection, earlier),
                Stepped::Known(seq) => self.log("broker", || format!("has {seq} already")),
                Stepped::NotTaken { seq, closes_channel } => {
                    self.log("broker", || format!("does not take {seq}"));
                    self.checker.disruptions += u32::from(closes_channel);
                    self.may_delete_not_taken(seq);
                }
                Stepped::Muted { seq, is_on_side_channel } => {
                    self.log("broker", || format!("a mute queue has {seq}"));
                    if is_on_side_channel && self.dice.network.bool() {
                        let after = self.dice.network.u64(1_000_000..8_000_000);
                        self.later(after, What::GiveUp(connection, seq));
                    }
                }
                Stepped::Closed => return self.cut(connection, "the broker closes the connection", true),
                Stepped::Replaced => return self.forget_publisher(connection, "another publisher has replaced it"),
                Stepped::Nothing => break,
            }
        }
        self.schedule_step(connection);
        self.schedule_answers(connection);
    }

    /// A side channel gives up waiting for a mute queue.
    pub(crate) fn give_up(&mut self, connection: u64, seq: i64) {
        if self.broker.give_up(connection, seq) {
            self.log("broker", || format!("gives {seq} up"));
            self.schedule_answers(connection);
        }
    }

    /// A mute queue has its majority again.
    pub(crate) fn unmute(&mut self, queue: usize) {
        for (seq, connection, earlier) in self.broker.unmute(queue, self.now) {
            self.accepted(seq, connection, earlier);
        }
        for connection in self.broker.connections.keys().copied().collect::<Vec<_>>() {
            self.schedule_answers(connection);
            self.schedule_step(connection);
        }
    }

    /// Schedules the connection's answers, if there are any.
    pub(crate) fn schedule_answers(&mut self, connection: u64) {
        let way = self.way();
        let Some((relay, session)) = self.owner(connection) else { return };
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        if !open.is_answering && !open.answers.is_empty() {
            open.is_answering = true;
            self.later(way, What::Answers(relay, session, connection));
        }
    }

    /// Answers of the broker reach the relay.
    pub(crate) fn answers(&mut self, relay: usize, id: u64, connection: u64) {
        if let Some(open) = self.broker.connections.get_mut(&connection) {
            open.is_answering = false;
        }
        let at_most = self.dice.some(1..=11);
        let (now, silent) = (self.clocks(), self.broker.is_silent);
        let confirm_timeout = micros(self.knobs.config.confirm_timeout);
        let answers = self.broker.answer(connection, at_most);
        if answers.is_empty() {
            let answers_due_since = self.broker.connections.get(&connection).and_then(|open| open.answers_due_since);
            if silent && answers_due_since.is_some_and(|since| self.now >= since + confirm_timeout) {
                return self.cut(connection, "the broker has answered nothing for long", false);
            }
            if silent && answers_due_since.is_some() {
                if let Some(open) = self.broker.connections.get_mut(&connection) {
                    open.is_answering = true;
                }
                self.later(500_000, What::Answers(relay, id, connection));
            }
            return;
        }
        self.schedule_answers(connection);
        let Some(session) = self.session(relay, id).filter(|session| session.connection == Some(connection)) else {
            return;
        };
        session.connects = 0;
        session.absence.answered();
        session.core.on(Input::Sink(Notice::Outcomes(answers)), now);
        self.turn(relay);
    }

    /// The broker tells the relay that it blocks publishing, or no longer does.
    pub(crate) fn blocked(&mut self, relay: usize, id: u64, connection: u64, is_blocked: bool) {
        let now = self.clocks();
        let Some(session) = self.session(relay, id).filter(|session| session.connection == Some(connection)) else {
            return;
        };
        let notice = if is_blocked { Notice::Blocked("low on memory".to_owned()) } else { Notice::Unblocked };
        session.core.on(Input::Sink(notice), now);
        self.turn(relay);
    }

    /// A connection to the broker ends.
    pub(crate) fn cut(&mut self, connection: u64, why: &'static str, may_be_a_message: bool) {
        let owner = self.owner(connection);
        self.broker.connections.remove(&connection);
        self.checker.disruptions += 1;
        self.log("network", || format!("connection {connection} ends: {why}"));
        if let Some((relay, session)) = owner {
            let way = self.way();
            self.later(way, What::Lost(relay, session, connection, why, may_be_a_message));
        }
    }

    /// The relay notices that its connection has ended, unless it has given up the connection before.
    pub(crate) fn lost(&mut self, relay: usize, id: u64, lost: u64, why: &'static str, may_be_a_message: bool) {
        let now = self.clocks();
        let pause = self.dice.network.u64(50_000..200_000);
        let Some(session) = self.session(relay, id).filter(|session| session.connection == Some(lost)) else { return };
        (session.connection, session.proves) = (None, may_be_a_message);
        let since = session.absence.lost(now.instant);
        let notice = Notice::Away { error: why.to_owned(), since, may_be_a_message };
        session.core.on(Input::Sink(notice), now);
        self.later(pause, What::Connect(relay, id));
        self.turn(relay);
    }

    /// The relay and the session that use the connection; `None`: they are gone.
    fn owner(&self, connection: u64) -> Option<(usize, u64)> {
        self.relays.iter().enumerate().find_map(|(number, relay)| {
            let session = relay.session.as_ref()?;
            (session.connection == Some(connection)).then_some((number, session.id))
        })
    }
}
