//! When to look at the slot, and whether it has been over its limit for too long.
//!
//! Dropping a slot costs little: it is created again at once, and its events stand in the table. A full disk would stop
//! every user of the server.

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Pressure, SlotSize},
};

/// Pause between two looks, each of which reads one row of a view.
const INTERVAL: Duration = Duration::from_secs(5);
/// A slot that has been over its limit for this time, without a break, is dropped. It is longer than the 15 s in which
/// PostgreSQL advances a slot that nothing holds back, so that a busy server does not lose its slot each time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Above this many bytes (one WAL segment), a look also finds out what holds the slot back, so that the answer is there
/// once it matters.
const WORTH_A_NAME: u64 = 16 << 20;

/// The looks at the slot, and since when it has been over its limit.
#[derive(Clone, Debug)]
pub(crate) struct SlotWatch {
    /// Most bytes of WAL that the slot may keep; `None`: no limit.
    max: Option<u64>,
    look_at: Instant,
    running: Option<Look>,
    /// Whether the last look has found a slot large enough to find out what holds it back.
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
    /// The slot is to be dropped.
    Drop,
    /// The slot stays: another slot keeps more, so dropping this one would free no disk.
    KeptByOther,
}

impl SlotWatch {
    pub(crate) fn new(max: Option<u64>, now: Instant) -> Self {
        Self { max, look_at: now, running: None, is_worth_a_name: false, over_since: None }
    }

    /// When the next look begins; `None`: one is running.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.running.is_none().then_some(self.look_at)
    }

    /// Begins a look if one is due. Returns whether it finds out what holds the slot back; `is_creating`: the slot is
    /// being created.
    pub(crate) fn take_look(&mut self, is_creating: bool, now: Instant) -> Option<bool> {
        self.next_look().filter(|at| *at <= now)?;
        let asks_who = is_creating || self.is_worth_a_name;
        self.running = Some(Look { asks_who });
        Some(asks_who)
    }

    /// The look has ended; `size` is `None` if there is no slot or the look failed. Returns what follows; `None`:
    /// nothing.
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
