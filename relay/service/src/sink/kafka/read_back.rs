//! What topics have of events that earlier relays, or earlier connections of this one, have published. A topic is read
//! when the first event for it is handed over, and until then its events wait here.

use std::collections::{HashMap, HashSet};

use kafka_producer::{Extent, From, Outgoing, TopicRead};
use outbox_core::Outcome;

use super::{
    answer,
    message::{Mark, Outbound},
};
use crate::sink::Answer;

/// Most events that are kept, in 44 MB.
const MOST_FOUND: usize = 1_800_000;
/// Most topics that are known. Beyond that they are read once more, since emitters can name any number.
const MOST_TOPICS: usize = 10_000;

/// What the topics have, as far as it is known.
#[derive(Default)]
pub(super) struct ReadBack {
    /// From where on topics are read that are not among `topics`; `None`: nothing is read.
    first: Option<From>,
    topics: HashMap<Box<str>, Topic>,
    found: HashSet<Mark>,
    keeps_order: bool,
}

enum Topic {
    /// It is to be read from there on.
    Due(From),
    /// It is being read from there on, and these events wait for that.
    Reading(From, Vec<Outbound>),
    Read,
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
    /// Why events of the topic may be published twice; `None`: they are not.
    pub(super) gap: Option<String>,
}

impl ReadBack {
    pub(super) fn new(keeps_order: bool) -> Self {
        Self { keeps_order, ..Self::default() }
    }

    /// What was published since then is to be read, beside what was to be read before.
    pub(super) fn begin(&mut self, from: From) {
        self.first.get_or_insert(from);
        for topic in self.topics.values_mut() {
            if matches!(topic, Topic::Read) {
                *topic = Topic::Due(from);
            }
        }
    }

    /// The connection is gone. Events that waited are handed over again.
    pub(super) fn lost(&mut self) {
        for topic in self.topics.values_mut() {
            if let Topic::Reading(from, _) = topic {
                *topic = Topic::Due(*from);
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
            return Taken::Asks(name, first);
        };
        match topic {
            Topic::Read if self.found.contains(&event.mark()) => Taken::Found(answer::found(event.id())),
            Topic::Read => Taken::Leaves(event),
            Topic::Reading(_, waiting) => {
                waiting.push(event);
                Taken::Waits
            }
            Topic::Due(from) => {
                let (from, name) = (*from, event.topic().into());
                *topic = Topic::Reading(from, vec![event]);
                Taken::Asks(name, from)
            }
        }
    }

    /// The events that were found are known for as long as the session lasts, since not all of them may have been
    /// handed over yet.
    pub(super) fn read(&mut self, read: TopicRead<Mark>) -> After {
        let mut after = After { answers: Vec::new(), leaving: Vec::new(), gap: None };
        let Some(topic) = self.topics.get_mut(&*read.topic) else { return after };
        let Topic::Reading(from, waiting) = std::mem::replace(topic, Topic::Read) else { return after };
        if let Extent::Failed(reason) = read.extent {
            *topic = Topic::Due(from);
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
        for event in waiting {
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
            let outcome = if is_first { Outcome::Unavailable(reason.text.clone()) } else { Outcome::Behind };
            answer::unread(event.id(), outcome, reason.code)
        };
        waiting.iter().map(answer).collect()
    }
}
