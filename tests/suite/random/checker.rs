//! Says what is wrong with a run, from what clients committed, what the queues hold, and what the rows say. Pure.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use uuid::Uuid;

use super::program::Kind;

/// One event that a client knows to be committed.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) id: Uuid,
    pub(super) kind: Kind,
    /// Its transaction; for people.
    pub(super) tx: i32,
    /// Its key, and its place among the key's events in the order of commits.
    pub(super) key: Option<(u32, i64)>,
    /// Replays that are known to be committed.
    pub(super) replays: usize,
    /// Replays whose outcome the client never learnt.
    pub(super) unknown_replays: usize,
}

/// One message that a queue holds. The order is that in which the queue took them.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) id: Uuid,
    pub(super) queue: Queue,
    /// As its headers and its body say.
    pub(super) key: Option<(u32, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queue {
    /// Takes everything, always.
    Open,
    /// Is full at times.
    Full,
}

/// What a row says at the end.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) status: String,
    pub(super) attempts: i32,
    /// It has a verdict from before its time.
    pub(super) early: bool,
}

/// All that is known about a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) facts: Vec<Fact>,
    pub(super) delivered: Vec<Delivered>,
    pub(super) rows: Vec<Row>,
    /// How relays have ended.
    pub(super) exits: Vec<i32>,
    /// The most memory that a relay held, in bytes.
    pub(super) peak_memory: u64,
    /// Bytes of the WAL that the slot holds back after the drain.
    pub(super) retained_wal: i64,
}

/// What the schedule permits.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) duplicates: usize,
    /// The queues in which a key's first deliveries are in order.
    pub(super) ordered: Vec<Queue>,
    pub(super) peak_memory: u64,
    pub(super) retained_wal: i64,
    /// Exit codes that a schedule can explain.
    pub(super) exits: Vec<i32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Committed, and not in a queue as often as it was sent by emit and replay.
    Lost {
        id: Uuid,
        kind: Kind,
        delivered: usize,
        expected: usize,
    },
    /// In a queue, and never committed.
    Phantom(Uuid),
    /// In a queue, though it cannot be delivered.
    Undeliverable(Uuid, Kind),
    /// Delivered with another key or number than it was emitted with.
    Changed(Uuid),
    /// First delivered behind a later event of its key.
    Order {
        key: u32,
        queue: Queue,
        number: i64,
        behind: i64,
    },
    /// Not the verdict that the broker's answer gives.
    Verdict {
        id: Uuid,
        kind: Kind,
        status: String,
    },
    /// Committed, and not in the table.
    NoRow(Uuid),
    /// In the table, and never committed by a client: the clients' books are wrong.
    UnknownRow(Uuid),
    Attempts {
        id: Uuid,
        kind: Kind,
        attempts: i32,
    },
    Early(Uuid),
    Duplicates {
        count: usize,
        limit: usize,
    },
    Memory {
        bytes: u64,
        limit: u64,
    },
    RetainedWal {
        bytes: i64,
        limit: i64,
    },
    Exit(i32),
}

/// Everything that is wrong.
pub(super) fn check(evidence: &Evidence, limits: &Limits) -> Vec<Violation> {
    let facts: HashMap<Uuid, &Fact> = evidence.facts.iter().map(|fact| (fact.id, fact)).collect();
    let mut found = Vec::new();
    check_deliveries(evidence, &facts, limits, &mut found);
    check_order(evidence, &facts, limits, &mut found);
    check_rows(evidence, &facts, &mut found);
    if evidence.peak_memory > limits.peak_memory {
        found.push(Violation::Memory { bytes: evidence.peak_memory, limit: limits.peak_memory });
    }
    if evidence.retained_wal > limits.retained_wal {
        found.push(Violation::RetainedWal { bytes: evidence.retained_wal, limit: limits.retained_wal });
    }
    found.extend(evidence.exits.iter().filter(|code| !limits.exits.contains(code)).map(|code| Violation::Exit(*code)));
    found
}

/// Deliveries beyond those that were asked for.
pub(super) fn duplicates(evidence: &Evidence) -> usize {
    let counts = counts(evidence);
    let asked = |fact: &Fact| 1 + fact.replays + fact.unknown_replays;
    let extra = |fact: &Fact| counts.get(&fact.id).map_or(0, |count| count.saturating_sub(asked(fact)));
    evidence.facts.iter().map(extra).sum()
}

fn counts(evidence: &Evidence) -> HashMap<Uuid, usize> {
    let mut counts = HashMap::new();
    for delivered in &evidence.delivered {
        *counts.entry(delivered.id).or_default() += 1;
    }
    counts
}

fn check_deliveries(evidence: &Evidence, facts: &HashMap<Uuid, &Fact>, limits: &Limits, found: &mut Vec<Violation>) {
    let counts = counts(evidence);
    for fact in &evidence.facts {
        let delivered = counts.get(&fact.id).copied().unwrap_or_default();
        let expected = 1 + fact.replays;
        if fact.kind.is_deliverable() && delivered < expected {
            found.push(Violation::Lost { id: fact.id, kind: fact.kind, delivered, expected });
        } else if !fact.kind.is_deliverable() && delivered > 0 {
            found.push(Violation::Undeliverable(fact.id, fact.kind));
        }
    }
    let mut phantoms = HashSet::new();
    for delivered in &evidence.delivered {
        match facts.get(&delivered.id) {
            None if phantoms.insert(delivered.id) => found.push(Violation::Phantom(delivered.id)),
            Some(fact) if fact.key != delivered.key => found.push(Violation::Changed(delivered.id)),
            _ => {}
        }
    }
    let count = duplicates(evidence);
    if count > limits.duplicates {
        found.push(Violation::Duplicates { count, limit: limits.duplicates });
    }
}

/// Events without a key are free, and so are deferred ones: their own time comes before their key's order. A replay
/// follows a verdict, so the first delivery is over by then. Queues are judged apart: no one saw the order between
/// them.
fn check_order(evidence: &Evidence, facts: &HashMap<Uuid, &Fact>, limits: &Limits, found: &mut Vec<Violation>) {
    let mut seen = HashSet::new();
    let mut last: HashMap<(u32, Queue), i64> = HashMap::new();
    for delivered in evidence.delivered.iter().filter(|delivered| limits.ordered.contains(&delivered.queue)) {
        let Some(fact) = facts.get(&delivered.id) else { continue };
        let Some((key, number)) = fact.key.filter(|_| fact.kind != Kind::Deferred) else { continue };
        if !seen.insert(delivered.id) {
            continue;
        }
        let queue = delivered.queue;
        let behind = last.entry((key, queue)).or_insert(number);
        if *behind > number {
            found.push(Violation::Order { key, queue, number, behind: *behind });
        }
        *behind = number.max(*behind);
    }
}

fn check_rows(evidence: &Evidence, facts: &HashMap<Uuid, &Fact>, found: &mut Vec<Violation>) {
    let mut without_row: HashSet<Uuid> = facts.keys().copied().collect();
    for row in &evidence.rows {
        let Some(fact) = facts.get(&row.id) else {
            found.push(Violation::UnknownRow(row.id));
            continue;
        };
        without_row.remove(&row.id);
        let verdict = if fact.kind.is_deliverable() { "SENT" } else { "FAILED" };
        if row.status != verdict {
            found.push(Violation::Verdict { id: row.id, kind: fact.kind, status: row.status.clone() });
        } else if row.attempts < 1 || (row.attempts > 1 && fact.kind != Kind::Nackable) {
            // Only a nack costs an attempt and leaves another; a replay counts from 0 again.
            found.push(Violation::Attempts { id: row.id, kind: fact.kind, attempts: row.attempts });
        }
        if row.early {
            found.push(Violation::Early(row.id));
        }
    }
    found.extend(without_row.into_iter().map(Violation::NoRow));
}

impl Kind {
    fn is_deliverable(self) -> bool {
        !matches!(self, Self::Unroutable | Self::NoExchange)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
