//! The promises, and what is known of each event to check them. The checker knows what was committed, what the broker
//! took and what stands in the table; of the core it knows only the effects.

use std::{collections::BTreeMap, fmt};

use outbox_core::{Ordering, Status};

use crate::{
    broker::{Broker, Seen},
    database::{Database, Entry, Micros},
    knobs::Knobs,
};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// The event that shows it; `None`: it concerns no single event.
    pub seq: Option<i64>,
    /// What was seen, as a sentence.
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An event is `SENT` only after a queue has taken it.
    SentMeansSafe,
    /// An event is `FAILED` only after outcomes of its own that count.
    OutageFailsNobody,
    /// First deliveries of a key are in order.
    Order,
    /// An event that was rolled back, or is not on disk, is not published.
    NoPhantom,
    /// Memory is bounded.
    Memory,
    /// No more events leave in a second than `max_rate` allows.
    Rate,
    /// A crash repeats no more events than the settings allow.
    Duplicates,
    /// The slot moves on even if events cannot leave.
    WalIsFreed,
    /// A slot that has been over its limit for too long is dropped, and no other is.
    SlotLimit,
    /// A queue that answers nothing stops no other.
    GoesOn,
    /// While every destination is unavailable, an event is tried at least every five seconds.
    AsksAgain,
    /// Through a sink that reads back, no event is delivered twice.
    Once,
    /// No position is acknowledged beyond what is settled.
    Acknowledged,
    /// A relay that has lost its slot publishes nothing, and neither does a relay that drains.
    OneRelay,
    /// Every committed event gets its verdict.
    Verdict,
    /// The core makes no endless work for itself, and can read what it asks for.
    Sane,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.promise)?;
        if let Some(seq) = self.seq {
            write!(f, " (event {seq})")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What is known of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    pub(crate) key: Option<u64>,
    /// Events of its key that were visible and undelivered when it was emitted.
    pub(crate) before: Vec<i64>,
    pub(crate) is_committed: bool,
    /// Position behind its commit in the WAL.
    pub(crate) commit_end: u64,
    /// Whether its commit was on a disk that a failover has lost.
    pub(crate) was_dropped: bool,
    /// Whether its commit was lost in a crash before it was on disk.
    pub(crate) was_lost: bool,
    pub(crate) is_deferred: bool,
    /// Whether its body is larger than the broker takes.
    pub(crate) is_too_large: bool,
    /// Whether it was deferred and a live relay found it, which may not have read all events before it.
    pub(crate) goes_by_time: bool,
    /// Whether someone has deleted, released or replayed it, or set its status, so that its key need not wait for it.
    pub(crate) touched: bool,
    /// Whether someone has set its status.
    pub(crate) by_hand: bool,
    /// Whether a session has left it to the table for long, since its key was held or full, or it was not visible yet.
    pub(crate) was_left_out: bool,
    /// Whether the relay has given it up.
    pub(crate) given_up: bool,
    /// Deliveries before its last replay.
    pub(crate) earlier_deliveries: u32,
    /// How often it was made `PENDING` again.
    pub(crate) replays: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Checker {
    pub(crate) facts: BTreeMap<i64, Fact>,
    /// Incidents that may cost second deliveries: lost connections, ended sessions, closed channels.
    pub(crate) disruptions: u32,
    pub(crate) duplicates: u32,
    pub(crate) violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn fact(&mut self, seq: i64) -> &mut Fact {
        self.facts.entry(seq).or_default()
    }

    pub(crate) fn fail(&mut self, promise: Promise, seq: Option<i64>, what: impl Into<String>) {
        self.violation.get_or_insert_with(|| Violation { promise, seq, what: what.into() });
    }

    /// A queue has taken the event.
    pub(crate) fn accepted(&mut self, seq: i64, knobs: &Knobs, db: &Database, broker: &Broker) {
        let Some(fact) = self.facts.get(&seq).cloned() else { return };
        if !fact.is_committed || fact.was_lost {
            return self.fail(Promise::NoPhantom, Some(seq), "it was delivered and is not committed");
        }
        if fact.commit_end > db.flushed && !fact.was_dropped {
            return self.fail(Promise::NoPhantom, Some(seq), "it was delivered before its commit is on disk");
        }
        let seen = broker.seen.get(&seq).cloned().unwrap_or_default();
        if seen.accepted > 1 {
            self.duplicates += 1;
            return;
        }
        if knobs.config.policy.ordering == Ordering::None || fact.goes_by_time {
            return;
        }
        let overtaken = fact.before.iter().find(|earlier| !self.may_be_passed(**earlier, knobs, db, broker)).copied();
        if let Some(earlier) = overtaken {
            self.fail(
                Promise::Order,
                Some(seq),
                format!("delivered before event {earlier} of its key, on which it may build"),
            );
        }
    }

    fn may_be_passed(&self, earlier: i64, knobs: &Knobs, db: &Database, broker: &Broker) -> bool {
        let Some(fact) = self.facts.get(&earlier) else { return true };
        let nothing = Seen::default();
        let seen = broker.seen.get(&earlier).unwrap_or(&nothing);
        let is_not_taken = seen.nacked + seen.returned + seen.rejected + seen.muted + seen.behind > 0;
        let is_pipelined = knobs.config.policy.ordering == Ordering::Pipelined;
        seen.accepted > 0
            || fact.was_dropped
            || fact.was_lost
            || fact.is_deferred
            || fact.touched
            || is_pipelined && is_not_taken
            || !knobs.config.policy.hold_failed && (fact.given_up || seen.rejected > 0)
            || !db.rows.contains_key(&earlier)
    }

    /// A verdict was written.
    pub(crate) fn written(&mut self, seq: i64, status: Status, knobs: &Knobs, broker: &Broker) {
        let fact = self.fact(seq).clone();
        let seen = broker.seen.get(&seq).cloned().unwrap_or_default();
        if fact.by_hand {
            return;
        }
        match status {
            Status::Sent if seen.accepted <= fact.earlier_deliveries => {
                self.fail(Promise::SentMeansSafe, Some(seq), "SENT, and no queue has taken it");
            }
            Status::Failed if seen.rejected + seen.ended == 0 && !fact.is_too_large => {
                let counted = seen.returned + seen.countable;
                if counted < knobs.config.policy.max_attempts {
                    self.fail(
                        Promise::OutageFailsNobody,
                        Some(seq),
                        format!("FAILED after {counted} answers that count, {} nacks in all", seen.nacked),
                    );
                }
            }
            _ => {}
        }
    }

    /// When the oldest unacknowledged commit was written, if that was before `long_ago`.
    pub(crate) fn pinned(&self, confirmed: u64, wal: &[Entry], long_ago: Micros) -> Option<Micros> {
        let first = wal.partition_point(|entry| entry.end <= confirmed);
        wal.get(first).map(|entry| entry.at).filter(|at| *at < long_ago)
    }

    /// The run has come to its end.
    pub(crate) fn at_the_end(&mut self, knobs: &Knobs, db: &Database, broker: &Broker, unwritten: usize) {
        for (seq, fact) in self.facts.clone() {
            if !fact.is_committed || fact.was_lost || fact.was_dropped {
                continue;
            }
            match db.rows.get(&seq).map(|row| row.status) {
                Some(Status::Sent) if !broker.has_accepted(seq) && !fact.by_hand => {
                    self.fail(Promise::SentMeansSafe, Some(seq), "SENT, and no queue has taken it");
                }
                None if !fact.touched => self.fail(Promise::Sane, Some(seq), "its row is gone"),
                _ => {}
            }
        }
        let config = &knobs.config;
        let at_a_time = config.in_flight + 2 * config.settle_batch + unwritten;
        let replays: u32 = self.facts.values().map(|fact| fact.replays).sum();
        let allowed = u64::from(self.disruptions) * at_a_time as u64 + u64::from(replays);
        if u64::from(self.duplicates) > allowed {
            self.fail(
                Promise::Duplicates,
                None,
                format!("{} second deliveries, {} disruptions allow for {allowed}", self.duplicates, self.disruptions),
            );
        }
    }
}

/// A moment of a run, as a story prints it.
pub(crate) fn time(at: Micros) -> String {
    format!("{:>4}.{:06}", at / 1_000_000, at % 1_000_000)
}
