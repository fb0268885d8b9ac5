//! The small world's broker, of either kind, with the sink before it: what is on the way, and what is answered.

use std::{collections::VecDeque, sync::Arc};

use outbox_core::{Abilities, Event, Outcome, marked, marked_by_name};
use uuid::Uuid;

use crate::database::seq_of;

#[derive(Clone, Debug, Default)]
pub(super) struct Broker {
    /// Whether it keeps a log: it takes messages in order and knows what it has.
    is_log: bool,
    pub(super) is_connected: bool,
    on_the_way: VecDeque<Arc<Event>>,
    answers: Vec<(Uuid, Answer)>,
    /// Messages on the way that come back, since one of their key before them was refused.
    behind: Vec<Uuid>,
    /// Delivered events, in order of their first delivery.
    pub(super) delivered: Vec<i64>,
    /// What the log has, by event and number of replays; what it has of the present publisher; what the sink has found.
    log: Vec<(i64, u32)>,
    of_publisher: Vec<(i64, u32)>,
    found: Vec<(i64, u32)>,
    /// Whether the broker knows no publisher.
    pub(super) has_forgotten: bool,
}

marked!(Broker {
    is_connected, on_the_way, answers, behind, delivered, log, of_publisher, found, has_forgotten
} not { is_log });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Delivered,
    Found,
    Refused,
    Behind,
}

marked_by_name!(Answer);

impl Broker {
    pub(super) fn new(is_log: bool) -> Self {
        Self { is_log, has_forgotten: is_log, ..Self::default() }
    }

    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    pub(super) fn abilities(&self) -> Abilities {
        Abilities { ordered: self.is_log, reads_back: self.is_log, largest_message: None }
    }

    pub(super) fn has_messages(&self) -> bool {
        self.is_connected && !self.on_the_way.is_empty()
    }

    pub(super) fn has_answers(&self) -> bool {
        self.is_connected && !self.answers.is_empty()
    }

    /// A connection opens. Returns whether it has a new identity.
    pub(super) fn connect(&mut self) -> bool {
        self.is_connected = true;
        std::mem::take(&mut self.has_forgotten)
    }

    pub(super) fn read_back(&mut self) {
        self.found = self.log.clone();
    }

    pub(super) fn publish(&mut self, events: Vec<Arc<Event>>) {
        for event in events {
            let (id, key) = (event.id, key_of(&event.id));
            if self.found.contains(&(event.seq, event.replays)) {
                self.answers.push((id, Answer::Found));
                continue;
            }
            let comes_back = |(other, answer): &(Uuid, Answer)| {
                key_of(other) == key && matches!(answer, Answer::Refused | Answer::Behind)
            };
            if self.answers.iter().any(comes_back) || self.behind.iter().any(|other| key_of(other) == key) {
                self.behind.push(id);
            }
            self.on_the_way.push_back(event);
        }
    }

    /// The broker takes the next message, unless it comes back.
    pub(super) fn take(&mut self) -> Result<(), String> {
        let Some(event) = self.on_the_way.pop_front() else { return Ok(()) };
        let message = (event.seq, event.replays);
        if self.behind.contains(&event.id) {
            self.behind.retain(|id| *id != event.id);
            self.answers.push((event.id, Answer::Behind));
            return Ok(());
        }
        self.answers.push((event.id, Answer::Delivered));
        if self.is_log && self.of_publisher.contains(&message) {
            return Ok(());
        }
        if event.seq == 2 && !self.delivered.contains(&1) {
            return Err("2 is delivered before 1, of the same key".to_owned());
        }
        if !self.delivered.contains(&event.seq) {
            self.delivered.push(event.seq);
        }
        if self.is_log {
            if self.log.contains(&message) {
                return Err(format!("{} is delivered twice", event.seq));
            }
            self.log.push(message);
            self.of_publisher.push(message);
        }
        Ok(())
    }

    /// The broker refuses the next message. Later ones of its key come back.
    pub(super) fn refuse(&mut self) {
        let Some(event) = self.on_the_way.pop_front() else { return };
        self.answers.push((event.id, Answer::Refused));
        let of_key = self.on_the_way.iter().filter(|other| key_of(&other.id) == key_of(&event.id));
        self.behind.extend(of_key.map(|other| other.id));
    }

    /// Takes the answers, which reach the relay.
    pub(super) fn answers(&mut self) -> Vec<(Uuid, Outcome)> {
        let outcome = |answer| match answer {
            Answer::Delivered => Outcome::Delivered,
            Answer::Found => Outcome::Found,
            Answer::Refused => Outcome::Retry("refused".to_owned()),
            Answer::Behind => Outcome::Behind,
        };
        std::mem::take(&mut self.answers).into_iter().map(|(id, answer)| (id, outcome(answer))).collect()
    }

    pub(super) fn disconnect(&mut self) {
        self.is_connected = false;
        self.on_the_way.clear();
        self.answers.clear();
        self.behind.clear();
    }

    /// The broker forgets who publishes.
    pub(super) fn forget(&mut self) {
        self.disconnect();
        self.of_publisher.clear();
        self.has_forgotten = self.is_log;
    }

    /// The relay is gone, and what its sink has found.
    pub(super) fn crash(&mut self) {
        self.forget();
        self.found.clear();
    }
}

/// The number of the event's key: the first two events have one, and the third another.
fn key_of(id: &Uuid) -> u64 {
    u64::from(seq_of(id) == 3)
}
