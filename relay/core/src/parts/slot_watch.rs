//! When the slot is looked at, and when it has kept more than it may for too long.
//!
//! A slot is created again in no time, and what it would have brought stands in the table. The disk is everybody's.

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Pressure, SlotSize},
};

/// How often the slot is looked at: one row of a view.
const INTERVAL: Duration = Duration::from_secs(5);
/// A slot that has kept more than it may for so long, without a break, is dropped. Longer than the 15 s in which PostgreSQL moves
/// a slot on that nobody holds back, so that a server that writes much does not cost a slot each time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Above this, in bytes, a look also asks who holds the slot back, so that the answer is there once it matters. One WAL segment.
const WORTH_A_NAME: u64 = 16 << 20;

/// The looks at the slot, and since when it has been over its limit.
#[derive(Clone, Debug)]
pub(crate) struct SlotWatch {
    /// Most bytes of the WAL that the slot may keep.
    max: Option<u64>,
    look_at: Instant,
    running: Option<Look>,
    /// Whether the last look has found a slot of which it is worth to know who holds it back.
    is_worth_a_name: bool,
    over_since: Option<Instant>,
}

crate::marked!(SlotWatch { look_at, running, is_worth_a_name, over_since } not { max });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    asks_who: bool,
}

crate::marked!(Look { asks_who });

/// What follows for a slot that has been over its limit for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverLimit {
    /// It is to be dropped.
    Drop,
    /// Another slot keeps more: dropping this one would free nothing.
    KeptByOther,
}

impl SlotWatch {
    pub(crate) fn new(max: Option<u64>, now: Instant) -> Self {
        Self { max, look_at: now, running: None, is_worth_a_name: false, over_since: None }
    }

    /// When the next look begins, if none runs.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.running.is_none().then_some(self.look_at)
    }

    /// Begins a look, if it is time. Returns whether it asks who holds the slot back; `is_making`: the slot is being made.
    pub(crate) fn take_look(&mut self, is_making: bool, now: Instant) -> Option<bool> {
        self.next_look().filter(|at| *at <= now)?;
        let asks_who = is_making || self.is_worth_a_name;
        self.running = Some(Look { asks_who });
        Some(asks_who)
    }

    /// The look has ended; `None`: there is no slot, or it could not be looked at.
    pub(crate) fn looked(&mut self, size: Option<SlotSize>, now: Instant) -> Option<OverLimit> {
        let asked_who = self.running.take().is_some_and(|look| look.asks_who);
        self.look_at = now + INTERVAL;
        let size = size?;
        self.is_worth_a_name = size.kept > WORTH_A_NAME || size.pressure(self.max) > Pressure::Little;
        if self.is_worth_a_name && !asked_who {
            self.look_at = now;
        }
        let is_over = self.max.is_some_and(|max| size.kept > max) && !faults::is_on(Fault::OverLimitIgnored);
        self.over_since = is_over.then(|| self.over_since.unwrap_or(now));
        let lasted = now.duration_since(self.over_since?);
        if lasted < PATIENCE && !faults::is_on(Fault::OverLimitInHaste) {
            return None;
        }
        let other_keeps_more = size.kept_by_other > size.kept && !faults::is_on(Fault::OtherSlotIgnored);
        Some(if other_keeps_more { OverLimit::KeptByOther } else { OverLimit::Drop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn keeps(kept: u64) -> Option<SlotSize> {
        Some(SlotSize { kept: kept * MB, ..SlotSize::default() })
    }

    #[test]
    fn a_slot_is_dropped_only_after_20_s_over_its_limit_without_a_break_and_if_no_other_keeps_more() {
        let start = Instant::now();
        let mut watch = SlotWatch::new(Some(100 * MB), start);
        let mut look = |seconds: u64, size| {
            let now = start + Duration::from_secs(seconds);
            assert!(watch.take_look(false, now).is_some(), "{seconds} s");
            watch.looked(size, now)
        };
        assert_eq!((look(0, keeps(101)), look(0, keeps(101))), (None, None));
        assert_eq!((look(15, keeps(101)), look(20, keeps(100)), look(25, keeps(101))), (None, None, None));
        assert_eq!((look(40, keeps(300)), look(45, None), look(50, keeps(101))), (None, None, Some(OverLimit::Drop)));
        let other = keeps(101).map(|size| SlotSize { kept_by_other: 102 * MB, ..size });
        assert_eq!(look(55, other), Some(OverLimit::KeptByOther));
    }

    #[test]
    fn who_holds_the_slot_is_asked_at_once_when_it_begins_to_matter_and_with_every_look_from_then_on() {
        let start = Instant::now();
        let mut watch = SlotWatch::new(Some(20 * MB), start);
        assert_eq!(watch.take_look(false, start), Some(false));
        watch.looked(keeps(12), start);
        assert_eq!(watch.take_look(false, start), Some(true), "more than half of its limit");
        watch.looked(keeps(12), start);
        assert_eq!(watch.take_look(false, start + Duration::from_secs(4)), None);
        assert_eq!(watch.take_look(false, start + Duration::from_secs(5)), Some(true));
    }
}
