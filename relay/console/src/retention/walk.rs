//! Decides which pages of the table to visit, and when. Pure.
//!
//! The table is walked in ranges of pages. Each visit of a range returns the age of its oldest remaining finished
//! event, so the range is not visited again before that one is old.
//!
//! Most ranges are visited two or three times before their space is reused: soon after they were filled, and when their
//! events are old. So a walk costs little however large the table is, and needs no index; a range with events of all
//! ages is visited twenty times within the retention time.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::policy::{KeptBack, Left, Policy};

/// Pages of the shortest range: 2 MiB, some thousand events, which one statement deletes in some ten milliseconds.
const RANGE_PAGES: u32 = 256;

/// Most ranges, so that they take little memory. Beyond 128 GiB they become longer.
const MOST_RANGES: u32 = 1 << 16;

/// Most visits of one range within the retention time.
const MOST_VISITS: u32 = 20;

/// Shortest and longest time between two rounds.
const ROUNDS: Range<Duration> = Duration::from_secs(1)..Duration::from_hours(1);

/// A walk through the table, repeated in rounds.
#[derive(Debug)]
pub(super) struct Walk {
    policy: Policy,
    shortest: Duration,
    /// Time from the beginning of one round to the next.
    every: Duration,
    /// Pages per range.
    length: u32,
    ranges: Vec<PageRange>,
    /// The table's file that the ranges belong to.
    file: Option<u32>,
    /// Beginning of this round.
    began: Instant,
    /// Index of the next range in this round.
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct PageRange {
    /// Earliest time of the next visit.
    due: Instant,
    kept_back: KeptBack,
}

impl Walk {
    /// Begins a walk; `None` if the policy keeps everything for ever.
    pub(super) fn new(policy: Policy, now: Instant) -> Option<Self> {
        let shortest = policy.shortest()?;
        let every = (shortest / 10).clamp(ROUNDS.start, ROUNDS.end);
        Some(Self { policy, shortest, every, length: RANGE_PAGES, ranges: Vec::new(), file: None, began: now, at: 0 })
    }

    /// Time from the beginning of one round to the next.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Sets the table's file. A new file, such as VACUUM FULL makes, forgets all ranges, because every row has moved.
    pub(super) fn is_in(&mut self, file: Option<u32>) {
        if self.file != file {
            self.ranges.clear();
            self.file = file;
        }
    }

    /// Begins a round over the table's `pages`. Pages that were added since the last round are due at once.
    pub(super) fn begin(&mut self, pages: u32, now: Instant) {
        let length = pages.div_ceil(MOST_RANGES).max(1).div_ceil(RANGE_PAGES) * RANGE_PAGES;
        if length != self.length {
            self.ranges.clear();
            self.length = length;
        }
        let ranges = usize::try_from(pages.div_ceil(length)).unwrap_or_default();
        self.ranges.resize(ranges, PageRange { due: now, kept_back: KeptBack::default() });
        (self.began, self.at) = (now, 0);
    }

    /// Returns the next range to visit, as its first page and number of pages; `None` if the round is over.
    pub(super) fn next(&mut self, now: Instant) -> Option<(i64, i32)> {
        let ahead = self.ranges.get(self.at..)?.iter().position(|range| range.due <= now)?;
        self.at += ahead;
        let from = i64::try_from(self.at).ok()? * i64::from(self.length);
        Some((from, i32::try_from(self.length).unwrap_or(i32::MAX)))
    }

    /// Records a visit of the range, and what is left there.
    ///
    /// Old events that could not be deleted are tried again in the next round. Events that come in from now on are
    /// finished later than now.
    pub(super) fn visited(&mut self, left: &Left, now: Instant) {
        let until_old = self.policy.first_is_old_in(left).unwrap_or(self.shortest).min(self.shortest);
        let rest = if until_old.is_zero() { self.every } else { self.every.max(self.shortest / MOST_VISITS) };
        if let Some(range) = self.ranges.get_mut(self.at) {
            *range = PageRange { due: (now + until_old).max(self.began + rest), kept_back: left.kept_back };
        }
        self.at += 1;
    }

    /// Records that the range could not be visited: it is due again in the next round.
    pub(super) fn failed(&mut self) {
        if let Some(range) = self.ranges.get_mut(self.at) {
            range.due = self.began + self.every;
        }
        self.at += 1;
    }

    /// Returns the numbers of old events that stay, in the whole table.
    pub(super) fn kept_back(&self) -> KeptBack {
        let add = |sum: KeptBack, range: &PageRange| KeptBack {
            holding: sum.holding + range.kept_back.holding,
            refused: sum.refused + range.kept_back.refused,
        };
        self.ranges.iter().fold(KeptBack::default(), add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const HOUR: Duration = Duration::from_hours(1);
    const NOTHING: Left = Left { sent: None, failed: None, kept_back: KeptBack { holding: 0, refused: 0 } };

    fn month() -> Walk {
        Walk::new(Policy { sent: Some(30 * DAY), failed: None }, Instant::now()).unwrap()
    }

    /// Visits everything that is due, each time with `left` as the result, and returns the number of visits.
    fn round(walk: &mut Walk, pages: u32, left: &Left, now: Instant) -> usize {
        walk.begin(pages, now);
        let mut visits = 0;
        while walk.next(now).is_some() {
            walk.visited(left, now);
            visits += 1;
        }
        visits
    }

    #[test]
    fn without_a_time_nothing_is_walked() {
        assert!(Walk::new(Policy { sent: None, failed: None }, Instant::now()).is_none());
    }

    #[test]
    fn every_page_is_visited_in_the_first_round() {
        let (mut walk, now) = (month(), Instant::now());
        walk.begin(1000, now);
        let mut seen = Vec::new();
        while let Some(range) = walk.next(now) {
            seen.push(range);
            walk.visited(&NOTHING, now);
        }
        assert_eq!(seen, [(0, 256), (256, 256), (512, 256), (768, 256)]);
        assert_eq!(round(&mut walk, 0, &NOTHING, now), 0);
    }

    #[test]
    fn a_range_is_visited_again_when_its_oldest_event_is_old() {
        let (mut walk, start) = (month(), Instant::now());
        let left = Left { sent: Some(10 * DAY), failed: Some(90 * DAY), ..NOTHING };
        assert_eq!(round(&mut walk, 1000, &left, start), 4);
        assert_eq!(round(&mut walk, 1000, &left, start + 20 * DAY - HOUR), 0, "and FAILED ones are kept");
        assert_eq!(round(&mut walk, 1000, &left, start + 20 * DAY), 4);
    }

    #[test]
    fn a_range_with_events_of_all_ages_is_visited_twenty_times_while_they_are_kept() {
        let (mut walk, start) = (month(), Instant::now());
        let left = Left { sent: Some(30 * DAY - HOUR), ..NOTHING };
        let visits: usize = (0..30 * 24).map(|hour| round(&mut walk, 256, &left, start + hour * HOUR)).sum();
        assert_eq!(visits, 20);
    }

    #[test]
    fn a_range_without_finished_events_is_visited_when_one_that_comes_in_now_may_be_old() {
        let (mut walk, start) = (month(), Instant::now());
        assert_eq!(round(&mut walk, 1000, &NOTHING, start), 4);
        assert_eq!(round(&mut walk, 1000, &NOTHING, start + 30 * DAY - HOUR), 0);
        assert_eq!(round(&mut walk, 1000, &NOTHING, start + 30 * DAY), 4);
    }

    #[test]
    fn what_could_not_be_deleted_is_tried_again_in_the_next_round_and_not_before() {
        let (mut walk, start) = (month(), Instant::now());
        let left = Left { sent: Some(31 * DAY), ..NOTHING };
        assert_eq!(round(&mut walk, 1000, &left, start), 4);
        assert_eq!(round(&mut walk, 1000, &left, start + HOUR / 2), 0);
        assert_eq!(round(&mut walk, 1000, &left, start + HOUR), 4);
    }

    #[test]
    fn a_range_that_cannot_be_visited_keeps_none_of_the_others() {
        let (mut walk, start) = (month(), Instant::now());
        walk.begin(512, start);
        assert_eq!(walk.next(start), Some((0, 256)));
        walk.failed();
        assert_eq!(walk.next(start), Some((256, 256)));
        walk.visited(&NOTHING, start);
        assert_eq!(walk.next(start), None);
        assert_eq!(round(&mut walk, 512, &NOTHING, start + HOUR), 1);
    }

    #[test]
    fn what_is_kept_back_is_counted_in_the_whole_table_and_not_only_where_a_round_was() {
        let (mut walk, start) = (month(), Instant::now());
        let held = Left { kept_back: KeptBack { holding: 2, refused: 0 }, ..NOTHING };
        round(&mut walk, 512, &held, start);
        assert_eq!(round(&mut walk, 512, &NOTHING, start + HOUR), 0);
        assert_eq!(walk.kept_back(), KeptBack { holding: 4, refused: 0 });
        walk.begin(256, start + 2 * HOUR);
        assert_eq!(walk.kept_back().holding, 2, "the table has become shorter");
    }

    #[test]
    fn the_shorter_of_both_times_decides() {
        let policy = Policy { sent: Some(DAY), failed: Some(30 * DAY) };
        let start = Instant::now();
        let mut walk = Walk::new(policy, start).unwrap();
        assert_eq!(walk.every(), HOUR);
        let left = Left { failed: Some(30 * DAY - 2 * HOUR), ..NOTHING };
        assert_eq!(round(&mut walk, 256, &left, start), 1);
        assert_eq!(round(&mut walk, 256, &left, start + HOUR), 0);
        assert_eq!(round(&mut walk, 256, &left, start + 2 * HOUR), 1);
        assert_eq!(
            Walk::new(Policy { sent: Some(Duration::ZERO), failed: None }, start).unwrap().every(),
            ROUNDS.start
        );
    }

    #[test]
    fn a_table_that_grows_is_visited_where_it_is_new() {
        let (mut walk, start) = (month(), Instant::now());
        assert_eq!(round(&mut walk, 256, &NOTHING, start), 1);
        assert_eq!(round(&mut walk, 1024, &NOTHING, start + HOUR), 3);
        assert_eq!(round(&mut walk, 512, &NOTHING, start + 2 * HOUR), 0, "VACUUM has cut it off");
    }

    #[test]
    fn a_table_that_was_written_anew_is_visited_as_a_whole() {
        let (mut walk, start) = (month(), Instant::now());
        walk.is_in(Some(16_400));
        assert_eq!(round(&mut walk, 512, &NOTHING, start), 2);
        walk.is_in(Some(16_400));
        assert_eq!(round(&mut walk, 512, &NOTHING, start + HOUR), 0);
        walk.is_in(Some(16_500));
        assert_eq!(round(&mut walk, 512, &NOTHING, start + 2 * HOUR), 2);
    }

    #[test]
    fn the_largest_table_takes_little_memory_and_is_walked_as_a_whole() {
        let (mut walk, now) = (month(), Instant::now());
        for pages in [MOST_RANGES * RANGE_PAGES, MOST_RANGES * RANGE_PAGES + 1, u32::MAX] {
            walk.begin(pages, now);
            assert!(walk.ranges.len() <= 1 << 16, "{}", walk.ranges.len());
            let mut end = 0;
            while let Some((from, length)) = walk.next(now) {
                assert_eq!(from, end);
                end = from + i64::from(length);
                walk.visited(&NOTHING, now);
            }
            assert!(end >= i64::from(pages), "{end} of {pages}");
        }
    }
}
