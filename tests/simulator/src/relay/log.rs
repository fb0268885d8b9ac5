//! A session's dealings with a broker that keeps a log: who it is there, what it has found, and that no event is
//! delivered twice.

use std::sync::Arc;

use outbox_core::{Event, Older, Outcome};

use super::Relay;
use crate::{
    broker::{Log, Taken},
    checker::Promise,
    database::{Micros, seq_of},
    world::{World, micros},
};

/// By how much a session reads back behind the last verdict: 5 s, or `confirm_timeout` if that is longer, and 2 s.
fn slack(confirm_timeout: Micros) -> Micros {
    confirm_timeout.max(5_000_000) + 2_000_000
}

impl World {
    /// The sink's identity at a broker that keeps a log: the one that the broker knows, or a new one.
    pub(super) fn identify(&mut self, known: Option<u64>) -> Option<u64> {
        known.or_else(|| self.broker.log.as_mut().map(Log::identify))
    }

    /// The broker no longer knows who publishes over the connection, and ends it. The sink takes a new identity.
    pub(crate) fn forget_publisher(&mut self, connection: u64, why: &'static str) {
        if !self.broker.connections.contains_key(&connection) {
            return; // it has ended, and the relay does not know yet
        }
        let publishes =
            |relay: &&mut Relay| relay.session.as_ref().is_some_and(|own| own.connection == Some(connection));
        if let Some(session) = self.relays.iter_mut().find(publishes).and_then(|relay| relay.session.as_mut()) {
            session.identity = None;
        }
        self.cut(connection, why, false);
    }

    /// From when on a session that begins now can find events that were handed over and have no verdict.
    pub(super) fn readable_since(&self) -> Micros {
        let slack = slack(micros(self.knobs.config.confirm_timeout));
        let floor = self.db.floor.map_or(Micros::MAX, |floor| u64::try_from(floor).unwrap_or(0));
        self.db.last_settled().map_or(0, |settled| settled.min(floor).saturating_sub(slack))
    }

    /// The sink reads the broker's log.
    pub(super) fn read_back(&mut self, relay: usize, since_us: Option<i64>, older: Older) {
        let since = |us: i64| u64::try_from(us).unwrap_or(0);
        let from = since_us.map_or(0, |us| since(us.min(older.since_us.unwrap_or(us))));
        let Some(log) = &self.broker.log else { return };
        let mut found: Vec<(i64, u32)> = log.read(from).collect();
        for (id, us) in older.in_doubt {
            found.extend(log.read(since(us)).filter(|(seq, _)| *seq == seq_of(&id)));
        }
        self.log_relay(relay, || format!("reads back from {since_us:?}, and finds {} messages", found.len()));
        if let Some(session) = &mut self.relays[relay].session {
            session.found.extend(found);
        }
    }

    /// Sends events, except those that the sink has found: they are answered at once.
    pub(super) fn send_in_order(&mut self, relay: usize, connection: u64, events: impl Iterator<Item = Arc<Event>>) {
        let now = self.now;
        let (Some(session), Some(open)) = (&self.relays[relay].session, self.broker.connections.get_mut(&connection))
        else {
            return;
        };
        for event in events {
            if session.found.contains(&(seq_of(&event.id), event.replays)) {
                open.answers.push((event.id, Outcome::Found));
            } else {
                let sent = open.publisher.send(event, now);
                open.on_the_way.push_back(sent);
            }
        }
        self.schedule_answers(connection);
        self.schedule_step(connection);
    }

    /// A queue has taken the event. `earlier`: its first copy in the broker's log.
    ///
    /// A second copy breaks the promise, with one exception: a session in between has left the event to the table for
    /// long, since its key was held or full, or its row was not visible. Then the next one does not read that far back.
    pub(super) fn accepted(&mut self, seq: i64, connection: u64, earlier: Option<Taken>) {
        self.log("broker", || format!("a queue takes {seq}"));
        self.checker.accepted(seq, &self.knobs, &self.db, &self.broker);
        let Some(earlier) = earlier else { return };
        let session = self.broker.connections.get(&connection).map(|open| open.publisher.session);
        let own = self.relays.iter().filter_map(|relay| relay.session.as_ref()).find(|own| Some(own.id) == session);
        let readable_since = own.map_or(Micros::MAX, |own| own.readable_since);
        if session == Some(earlier.session) || earlier.at >= readable_since || !self.checker.fact(seq).was_left_out {
            self.checker.fail(Promise::Once, Some(seq), "it is delivered twice, although the broker's log can be read");
        }
    }
}
