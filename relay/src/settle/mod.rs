//! Verdicts on their way into the table. Pure: the session does the writing.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{dispatch::Settlement, hash::BuildFold, snapshot::Snapshot, store::Remedy};

/// Wait before a row that could not be seen is tried again; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// Under synchronous replication a commit can stay invisible for as long as a standby is away.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// So many rows whose change the server refuses are tried again at a time: each takes a statement of its own.
const REFUSED_AT_A_TIME: usize = 10;

/// When and how much to write at a time.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    /// Verdicts in one statement at most.
    pub max: usize,
    /// How long a verdict waits for company.
    pub interval: Duration,
}

/// Verdicts that wait to be written.
#[derive(Debug)]
pub struct Settling {
    batching: Batching,
    queue: VecDeque<Verdict>,
    /// Not written: the row is not visible yet, or locked, or gone.
    unwritten: Vec<Unwritten>,
    look_at: Option<Instant>,
    wait: Duration,
    paused_until: Option<Instant>,
    /// Rows are locked by someone else: pass over them.
    skip_locked: bool,
    /// Verdicts in the next statement at most: less than usual while a row that cannot be written is looked for.
    limit: usize,
}

#[derive(Debug)]
struct Verdict {
    settlement: Settlement,
    since: Instant,
    /// Its transaction was visible before this attempt: if the row is not there now, it was deleted.
    last_chance: bool,
    /// Why it was not written before.
    because: Option<Because>,
}

#[derive(Debug)]
struct Unwritten {
    settlement: Settlement,
    because: Because,
}

/// Why a verdict is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Because {
    /// The row is not to be seen: this transaction, if it is known, must become visible first.
    Unseen(Option<u32>),
    /// Someone else has locked the row.
    Locked,
    /// The server refuses the change, as when a trigger of the user's does.
    Refused,
}

/// Verdicts of one statement.
#[derive(Debug)]
pub struct Batch {
    /// What to write; no event twice.
    pub settlements: Vec<Settlement>,
    /// Pass over rows that someone else has locked, instead of waiting for them.
    pub skip_locked: bool,
    /// One row whose change the server has refused before.
    pub refused_before: bool,
    last_chance: HashSet<Uuid>,
}

/// Events whose verdicts were not written.
#[derive(Debug, Default)]
pub struct NotWritten {
    /// Their rows are not to be seen.
    pub missing: HashSet<Uuid>,
    /// Their rows are locked.
    pub locked: HashSet<Uuid>,
    /// They were to be tried again, but someone has finished them.
    pub finished: HashSet<Uuid>,
}

impl Settling {
    /// Nothing to write yet.
    pub fn new(batching: Batching) -> Self {
        Self {
            batching,
            queue: VecDeque::new(),
            unwritten: Vec::new(),
            look_at: None,
            wait: FIRST_WAIT,
            paused_until: None,
            skip_locked: false,
            limit: batching.max,
        }
    }

    /// Adds a verdict.
    pub fn push(&mut self, settlement: Settlement, now: Instant) {
        self.queue.push_back(Verdict { settlement, since: now, last_chance: false, because: None });
    }

    /// Whether no verdict waits to be written.
    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.unwritten.is_empty()
    }

    /// Verdicts that are put aside: they cannot be written now.
    pub fn aside(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether a batch may be written now although it is not due: a drain waits for no company.
    pub fn may_hurry(&self, now: Instant) -> bool {
        !self.queue.is_empty() && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When the next batch is due, if more verdicts do not fill it before.
    pub fn due(&self) -> Option<Instant> {
        let oldest = self.queue.front()?.since;
        let due = if self.queue.len() >= self.batching.max { oldest } else { oldest + self.batching.interval };
        Some(self.paused_until.map_or(due, |until| due.max(until)))
    }

    /// Takes a batch. It ends before an event that is in it already: two attempts of one event are two updates.
    pub fn take(&mut self) -> Batch {
        let count = self.limit.min(self.queue.len());
        let mut ids = HashSet::with_capacity_and_hasher(count, BuildFold::default());
        let settlements = Vec::with_capacity(count);
        let mut batch =
            Batch { settlements, skip_locked: self.skip_locked, refused_before: false, last_chance: HashSet::new() };
        while batch.settlements.len() < self.limit {
            let may_join = |verdict: &mut Verdict| {
                // One that was refused goes alone: it would take the others with it.
                let is_suspect = verdict.because == Some(Because::Refused);
                ids.insert(verdict.settlement.id) && (!is_suspect || ids.len() == 1)
            };
            let Some(verdict) = self.queue.pop_front_if(may_join) else { break };
            batch.skip_locked |= verdict.because == Some(Because::Locked);
            batch.refused_before |= verdict.because == Some(Because::Refused);
            if verdict.last_chance {
                batch.last_chance.insert(verdict.settlement.id);
            }
            batch.settlements.push(verdict.settlement);
            if verdict.because == Some(Because::Refused) {
                break;
            }
        }
        batch
    }

    /// The batch was not written; it comes first, after a pause. Returns the event that is to blame, if it was alone: it is
    /// put aside, and the others go on.
    pub fn put_back(&mut self, mut batch: Batch, remedy: Remedy, now: Instant, pause: Duration) -> Option<Uuid> {
        self.skip_locked = true; // whatever it was, a lock may have had a part in it
        if remedy == Remedy::Isolate {
            if batch.settlements.len() == 1 {
                let settlement = batch.settlements.pop()?;
                let id = settlement.id;
                self.unwritten.push(Unwritten { settlement, because: Because::Refused });
                return Some(id);
            }
            self.limit = (batch.settlements.len() / 2).max(1);
        }
        if remedy != Remedy::Isolate {
            self.paused_until = Some(now + pause); // the search for a row need not wait: it gets smaller each time
        }
        for settlement in batch.settlements.into_iter().rev() {
            let last_chance = batch.last_chance.contains(&settlement.id);
            self.queue.push_front(Verdict { settlement, since: now, last_chance, because: None });
        }
        None
    }

    /// The batch was written, but for some. Returns the settlements that are done.
    pub fn written(&mut self, batch: Batch, except: &NotWritten, xid: impl Fn(&Uuid) -> Option<u32>) -> Vec<Done> {
        self.paused_until = None;
        self.limit = (self.limit * 2).min(self.batching.max);
        self.skip_locked = false; // it costs a lock and a log record for each row: only where it is needed
        let mut done = Vec::with_capacity(batch.settlements.len());
        for settlement in batch.settlements {
            let id = settlement.id;
            let is_missing = except.missing.contains(&id);
            if except.locked.contains(&id) {
                self.unwritten.push(Unwritten { settlement, because: Because::Locked });
            } else if is_missing && !batch.last_chance.contains(&id) {
                self.unwritten.push(Unwritten { because: Because::Unseen(xid(&id)), settlement });
            } else {
                let gone = is_missing || except.finished.contains(&id);
                done.push(Done { settlement, gone });
            }
        }
        done
    }

    /// Whether a snapshot is needed, to tell the rows that are not visible yet from those that are gone.
    pub fn wants_snapshot(&self, now: Instant) -> bool {
        !self.unwritten.is_empty() && self.look_at.is_none_or(|at| at <= now)
    }

    /// When [`wants_snapshot`](Self::wants_snapshot) may become true by itself.
    pub fn next_look(&self) -> Option<Instant> {
        self.look_at.filter(|_| !self.unwritten.is_empty())
    }

    /// Queues again what has become visible, and what was locked.
    pub fn seen(&mut self, snapshot: &Snapshot, now: Instant) {
        if self.unwritten.is_empty() {
            return;
        }
        let mut refused = 0;
        let is_ready = |unwritten: &Unwritten| match unwritten.because {
            Because::Unseen(xid) => xid.is_none_or(|xid| snapshot.sees(xid)),
            Because::Locked => true,
            Because::Refused => {
                refused += 1;
                refused <= REFUSED_AT_A_TIME
            }
        };
        let (ready, unseen): (Vec<_>, Vec<_>) = self.unwritten.drain(..).partition(is_ready);
        self.unwritten = unseen;
        let is_progress = ready.iter().any(|unwritten| matches!(unwritten.because, Because::Unseen(_)));
        self.wait = if is_progress { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
        for Unwritten { settlement, because } in ready.into_iter().rev() {
            let last_chance = matches!(because, Because::Unseen(_));
            let verdict = Verdict { settlement, since: now, last_chance, because: Some(because) };
            if because == Because::Refused {
                self.queue.push_back(verdict);
            } else {
                self.queue.push_front(verdict);
            }
        }
        self.look_at = Some(now + self.wait);
    }
}

/// A verdict that needs no more writing.
#[derive(Debug)]
pub struct Done {
    /// The verdict.
    pub settlement: Settlement,
    /// The row was deleted before it could be written, or someone else has finished the event.
    pub gone: bool,
}
