//! From which time on a sink that can do so reads back what was published, so that no event is delivered twice.

use std::{collections::HashMap, time::Duration};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::{IdHash, Start},
};

/// Most by which the clocks of relay, broker and database differ, with the time that a statement takes.
const CLOCKS: Duration = Duration::from_secs(2);
/// Most unanswered events whose times are told apart, in some 5 MB. Beyond that they count as the oldest of them.
const MOST_UNANSWERED: usize = 100_000;

/// What the sink does not know of events that the broker may have.
#[derive(Clone, Debug)]
pub(crate) struct ReadBack {
    /// Whether the sink can read back. Otherwise nothing is remembered.
    is_possible: bool,
    /// The time from which the next read begins; `None`: no read is due.
    due: Option<Since>,
    /// When each event was first handed over, until the broker has said what became of it or the event has FAILED. One
    /// that goes back to the table stays here, since it leaves again.
    unanswered: HashMap<Uuid, i64, IdHash>,
    /// The earliest time of those that were too many to be told apart.
    oldest_us: Option<i64>,
}

/// The beginning of a read, by the clock on the wall; `None`: as far back as the sink can.
type Since = Option<i64>;

crate::marked!(ReadBack { due, unanswered } not { is_possible, oldest_us });

impl ReadBack {
    /// A session begins with a read, because only the broker knows what earlier sessions have handed over. An event
    /// that they did not settle was handed over at most `confirm_timeout` before the newest verdict, unless its own
    /// verdict could not be written for longer.
    pub(crate) fn new(start: &Start, confirm_timeout: Duration) -> Self {
        let slack = if faults::is_on(Fault::ReadBackTooLate) { 0 } else { micros(confirm_timeout + CLOCKS) };
        let is_possible = start.abilities.reads_back;
        Self {
            is_possible,
            due: is_possible.then(|| start.last_settled_us.map(|settled| settled.saturating_sub(slack))),
            unanswered: HashMap::default(),
            oldest_us: None,
        }
    }

    /// These events are handed to the sink.
    pub(crate) fn handed_over(&mut self, ids: impl Iterator<Item = Uuid>, now_us: i64) {
        if !self.is_possible {
            return;
        }
        for id in ids {
            self.unanswered.entry(id).or_insert(now_us);
        }
        if self.unanswered.len() > MOST_UNANSWERED {
            self.oldest_us = self.earliest();
            self.unanswered.clear();
        }
    }

    /// The broker has said what became of the event, or it has FAILED without that.
    pub(crate) fn answered(&mut self, id: &Uuid) {
        if self.is_possible {
            self.unanswered.remove(id);
        }
    }

    /// The broker no longer knows the sink. What was read before stays known to the sink, so only events count that
    /// were handed over since.
    pub(crate) fn lost_identity(&mut self) {
        if self.is_possible && self.due.is_none() && !faults::is_on(Fault::IdentityTrusted) {
            self.due = self.earliest().map(|earliest| Some(earliest.saturating_sub(micros(CLOCKS))));
        }
    }

    /// Takes the beginning of the read that is due; `None`: none is.
    pub(crate) fn take(&mut self) -> Option<Since> {
        let since = self.due.take()?;
        self.unanswered.clear();
        self.oldest_us = None;
        Some(since)
    }

    fn earliest(&self) -> Option<i64> {
        self.unanswered.values().copied().chain(self.oldest_us).min()
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Abilities;

    fn reading(last_settled_us: Option<i64>) -> ReadBack {
        let abilities = Abilities { reads_back: true, ..Abilities::default() };
        ReadBack::new(&Start { abilities, last_settled_us, ..Start::default() }, Duration::from_secs(30))
    }

    #[test]
    fn a_session_reads_from_before_the_last_verdict_and_all_if_there_is_none() {
        assert_eq!(reading(Some(100_000_000)).take(), Some(Some(68_000_000)));
        assert_eq!(reading(None).take(), Some(None));
        assert_eq!(ReadBack::new(&Start::default(), Duration::ZERO).take(), None, "the sink cannot");
    }

    #[test]
    fn once_the_broker_has_forgotten_the_sink_it_reads_from_the_oldest_event_without_an_answer() {
        let [first, second, third] = [1, 2, 3].map(Uuid::from_u128);
        let mut read_back = reading(None);
        read_back.take();
        read_back.lost_identity();
        assert_eq!(read_back.take(), None, "nothing is unknown");
        read_back.handed_over([first, second].into_iter(), 10_000_000);
        read_back.handed_over([second, third].into_iter(), 20_000_000);
        read_back.answered(&first);
        read_back.lost_identity();
        assert_eq!(read_back.take(), Some(Some(8_000_000)));
        read_back.handed_over([third].into_iter(), 30_000_000);
        read_back.lost_identity();
        assert_eq!(read_back.take(), Some(Some(28_000_000)), "the sink knows what it read before");
    }
}
