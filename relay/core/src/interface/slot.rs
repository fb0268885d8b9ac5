//! What the replication slot keeps of the WAL.

/// Above this many bytes a slot without a limit is worth a warning. The alert `OutboxSlotKeepsWal` has the same number.
const MUCH: u64 = 5_000_000_000;

/// The size of the slot, in bytes of WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSize {
    /// WAL that the slot keeps.
    pub kept: u64,
    /// WAL that may be written before PostgreSQL invalidates the slot (`safe_wal_size` of `pg_replication_slots`);
    /// `None`: PostgreSQL sets it no limit.
    pub safe: Option<i64>,
    /// Whether PostgreSQL may invalidate the slot at the next checkpoint (its `wal_status` is `unreserved`).
    pub is_unreserved: bool,
    /// WAL that the largest other slot of this server keeps; 0: this server has no other slot.
    pub kept_by_other: u64,
}

/// How close the slot is to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// The slot keeps little.
    #[default]
    Little,
    /// The slot keeps more than half of what it may.
    Much,
    /// The slot is about to be invalidated by PostgreSQL: less than a fifth of its limit is left.
    NearlyLost,
}

impl SlotSize {
    /// How close the slot is to its limits. `max` is the relay's own limit in bytes; `None`: there is none.
    pub fn pressure(&self, max: Option<u64>) -> Pressure {
        let kept = i64::try_from(self.kept).unwrap_or(i64::MAX);
        let is_nearly_lost = self.is_unreserved || self.safe.is_some_and(|safe| safe < kept / 4);
        let is_much =
            self.kept > MUCH || self.safe.is_some_and(|safe| safe < kept) || max.is_some_and(|max| self.kept > max / 2);
        match (is_nearly_lost, is_much) {
            (true, _) => Pressure::NearlyLost,
            (false, true) => Pressure::Much,
            (false, false) => Pressure::Little,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn half_of_a_limit_is_much_and_less_than_a_fifth_left_is_nearly_lost() {
        for (kept, safe, max, expected) in [
            (60, None, None, Pressure::Little),
            (6000, None, None, Pressure::Much),
            (60, Some(70), None, Pressure::Little),
            (60, Some(50), None, Pressure::Much),
            (90, Some(10), None, Pressure::NearlyLost),
            (60, None, Some(121), Pressure::Little),
            (60, None, Some(110), Pressure::Much),
        ] {
            let safe = safe.map(|safe| safe * (1 << 20));
            let size = SlotSize { kept: kept * MB, safe, ..SlotSize::default() };
            assert_eq!(size.pressure(max.map(|max| max * MB)), expected, "{kept} {safe:?} {max:?}");
        }
        let unreserved = SlotSize { kept: 1, safe: Some(-1), is_unreserved: true, ..SlotSize::default() };
        assert_eq!(unreserved.pressure(None), Pressure::NearlyLost);
    }
}
