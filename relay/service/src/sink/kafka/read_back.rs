//! What topics have of events that earlier relays, or earlier connections of this one, have published. A topic is read
//! when the first event for it is handed over, and until then its events wait here. What is older is read after that,
//! so that a topic with more than may be read loses only the older part.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use kafka_producer::{Extent, From, Outgoing, TopicRead};
use outbox_core::{IdHash, Older};
use uuid::Uuid;

use super::{
    answer,
    message::{Mark, Outbound},
};
use crate::sink::Answer;

/// Most events that are kept, in 44 MB.
const MOST_FOUND: usize = 1_800_000;
/// Most topics that are known. Beyond that they are read once more, since emitters can name any number.
const MOST_TOPICS: usize = 10_000;

/// From when on a topic is read, in microseconds since the Unix epoch; `None`, the earliest: from its beginning.
type Since = Option<i64>;

/// What the topics have, as far as it is known.
#[derive(Default)]
pub(super) struct ReadBack {
    /// From when on topics are read that are not among `topics`; `None`: nothing is read.
    first: Option<Since>,
    /// From when on topics are read after that; `None`: not earlier.
    older_us: Option<i64>,
    /// Events that need an earlier time, until their topics are read from there.
    in_doubt: HashMap<Uuid, i64, IdHash>,
    topics: HashMap<Box<str>, Topic>,
    found: HashSet<Mark>,
    keeps_order: bool,
}

enum Topic {
    /// It is to be read from then on.
    Due(Since),
    /// It is being read from then on, and these events wait for that.
    Reading(Since, Vec<Outbound>),
    /// It was read from then on.
    Read(Since),
}

/// What becomes of an event that is handed over.
pub(super) enum Taken {
    /// It leaves.
    Leaves(Outbound),
    /// The topic has it already.
    Found(Answer),
    /// It waits until its topic is read.
    Waits,
    /// It waits, and its topic is to be read from there on.
    Asks(Box<str>, From),
}

/// What follows from a topic that was read.
pub(super) struct After {
    pub(super) answers: Vec<Answer>,
    pub(super) leaving: Vec<Outbound>,
    /// From where on the topic is to be read once more; `None`: it was read far enough.
    pub(super) asks: Option<From>,
    /// Why events of the topic may be published twice; `None`: they are not.
    pub(super) gap: Option<String>,
}

impl ReadBack {
    pub(super) fn new(keeps_order: bool) -> Self {
        Self { keeps_order, ..Self::default() }
    }

    /// What was published since then is to be read, beside what was to be read before, and then what is older.
    pub(super) fn begin(&mut self, since: Since, older: Older) {
        self.first.get_or_insert(since);
        self.older_us = self.older_us.into_iter().chain(older.since_us).min();
        self.in_doubt.extend(older.in_doubt);
        for topic in self.topics.values_mut() {
            if matches!(topic, Topic::Read(_)) {
                *topic = Topic::Due(since);
            }
        }
    }

    /// The connection is gone. Events that waited are handed over again.
    pub(super) fn lost(&mut self) {
        for topic in self.topics.values_mut() {
            if let Topic::Reading(since, _) = topic {
                *topic = Topic::Due(*since);
            }
        }
    }

    pub(super) fn take(&mut self, event: Outbound) -> Taken {
        let Some(first) = self.first else { return Taken::Leaves(event) };
        let Some(topic) = self.topics.get_mut(event.topic()) else {
            if self.topics.len() >= MOST_TOPICS {
                self.topics.retain(|_, topic| matches!(topic, Topic::Reading(..)));
            }
            let name: Box<str> = event.topic().into();
            self.topics.insert(name.clone(), Topic::Reading(first, vec![event]));
            return Taken::Asks(name, from(first));
        };
        match topic {
            Topic::Read(_) if self.found.contains(&event.mark()) => Taken::Found(answer::found(event.id())),
            Topic::Read(since) if self.in_doubt.get(&event.id()).is_none_or(|in_doubt| *since <= Some(*in_doubt)) => {
                Taken::Leaves(event)
            }
            Topic::Reading(_, waiting) => {
                waiting.push(event);
                Taken::Waits
            }
            Topic::Read(_) | Topic::Due(_) => {
                let since = if let Topic::Due(since) = topic { *since } else { Some(self.oldest()) };
                let name: Box<str> = event.topic().into();
                self.topics.insert(name.clone(), Topic::Reading(since, vec![event]));
                Taken::Asks(name, from(since))
            }
        }
    }

    /// The earliest time of all, so that a topic is read once more only once.
    fn oldest(&self) -> i64 {
        self.in_doubt.values().copied().chain(self.older_us).min().unwrap_or_default()
    }

    /// The events that were found are known for as long as the session lasts, since not all of them may have been
    /// handed over yet.
    pub(super) fn read(&mut self, read: TopicRead<Mark>) -> After {
        let mut after = After { answers: Vec::new(), leaving: Vec::new(), asks: None, gap: None };
        let Some(topic) = self.topics.get_mut(&*read.topic) else { return after };
        let Topic::Reading(since, waiting) = topic else { return after };
        let (since, waiting) = (*since, std::mem::take(waiting));
        *topic = Topic::Read(since);
        if let Extent::Failed(reason) = read.extent {
            *topic = Topic::Due(since);
            after.answers = self.refuse(&waiting, &reason);
            return after;
        }
        if let Extent::Part(why) = read.extent {
            after.gap = Some(why);
        }
        self.found.extend(read.marks.into_iter().take(MOST_FOUND.saturating_sub(self.found.len())));
        if self.found.len() >= MOST_FOUND {
            after.gap = Some(format!("it has more than {MOST_FOUND} events of that time"));
        }
        let in_doubt = waiting.iter().filter_map(|event| self.in_doubt.get(&event.id()).copied());
        if in_doubt.chain(self.older_us).any(|older| Some(older) < since) {
            let since = Some(self.oldest());
            self.topics.insert(read.topic.into(), Topic::Reading(since, waiting));
            after.asks = Some(from(since));
            return after;
        }
        for event in waiting {
            self.in_doubt.remove(&event.id());
            if self.found.contains(&event.mark()) {
                after.answers.push(answer::found(event.id()));
            } else {
                after.leaving.push(event);
            }
        }
        after
    }

    /// The first event of each key is unavailable, and the others are behind it.
    fn refuse(&self, waiting: &[Outbound], reason: &kafka_producer::Reason) -> Vec<Answer> {
        let mut keys = HashSet::new();
        let answer = |event: &Outbound| {
            let is_first = event.key().is_none_or(|key| keys.insert(key.to_vec())) || !self.keeps_order;
            answer::unread(event.id(), !is_first, reason)
        };
        waiting.iter().map(answer).collect()
    }
}

fn from(since: Since) -> From {
    since.map_or(From::Beginning, |us| From::Time((us / 1000).max(0)))
}
