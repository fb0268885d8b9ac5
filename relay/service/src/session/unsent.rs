//! Counts events that were not delivered, so that few are logged one by one and many as sums. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time between the first event that gets its own log line and the sums of the events that follow.
const INTERVAL: Duration = Duration::from_secs(10);
/// Most pairs of topic and reason that are counted apart in an interval; it bounds the memory.
const MOST_TOPICS: usize = 100;

/// The properties that the events of one sum share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct About {
    pub(super) topic: String,
    /// The events' status after the answer.
    pub(super) status: &'static str,
    /// The broker's reason.
    pub(super) error: String,
}

/// A number of events of one interval.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// `None`: the events beyond [`MOST_TOPICS`], together.
    pub(super) about: Option<About>,
    /// Number of events without a log line of their own.
    pub(super) count: u64,
}

#[derive(Debug, Default)]
pub(super) struct Unsent {
    counts: HashMap<About, u64>,
    others: u64,
    sum_at: Option<Instant>,
}

impl Unsent {
    /// Counts an event. Returns whether it gets its own log line, as the first of its topic and reason.
    pub(super) fn note(&mut self, about: About, now: Instant) -> bool {
        self.sum_at.get_or_insert(now + INTERVAL);
        if let Some(count) = self.counts.get_mut(&about) {
            *count += 1;
            return false;
        }
        let has_own_line = self.counts.len() < MOST_TOPICS;
        if has_own_line {
            self.counts.insert(about, 0);
        } else {
            self.others += 1;
        }
        has_own_line
    }

    /// When the sums are due to be logged; `None`: there is nothing to sum up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sum_at
    }

    /// Ends the interval and returns its sums, the largest first.
    pub(super) fn take(&mut self) -> Vec<Sum> {
        self.sum_at = None;
        let topics = self.counts.drain().map(|(about, count)| Sum { about: Some(about), count });
        let mut sums: Vec<Sum> = topics.chain([Sum { about: None, count: std::mem::take(&mut self.others) }]).collect();
        sums.retain(|sum| sum.count > 0);
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.count));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(topic: usize) -> About {
        About { topic: topic.to_string(), status: "FAILED", error: "312 NO_ROUTE".to_owned() }
    }

    #[test]
    fn the_first_of_a_topic_has_its_line_and_the_others_are_counted() {
        let now = Instant::now();
        let mut unsent = Unsent::default();
        let logged = [1, 1, 2, 1].map(|topic| unsent.note(about(topic), now));
        assert_eq!(logged, [true, false, true, false]);
        assert_eq!(unsent.due(), Some(now + INTERVAL));
        assert_eq!(unsent.take(), [Sum { about: Some(about(1)), count: 2 }]);
        assert_eq!((unsent.due(), unsent.take()), (None, vec![]));
        assert!(unsent.note(about(1), now), "a new interval");
    }

    #[test]
    fn any_number_of_topics_costs_bounded_memory_and_no_event_is_left_out() {
        let now = Instant::now();
        let mut unsent = Unsent::default();
        let lines = (0..10_000).filter(|topic| unsent.note(about(topic % 5000), now)).count();
        assert_eq!((lines, unsent.counts.len()), (MOST_TOPICS, MOST_TOPICS));
        let summed: u64 = unsent.take().iter().map(|sum| sum.count).sum();
        assert_eq!(lines as u64 + summed, 10_000);
    }
}
