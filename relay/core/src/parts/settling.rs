//! Verdicts on their way into the table.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::{Batch, IdHash, NotWritten, Remedy, Snapshot, Verdict},
};

/// Pause before a row that was not visible is tried again; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// Longest such pause: under synchronous replication a commit can stay invisible for as long as a standby is away.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Most rows whose change the server has refused that are tried again at a time, since each takes a statement of its
/// own.
const REFUSED_AT_A_TIME: usize = 10;

/// How verdicts are grouped into statements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    /// Most verdicts in one statement.
    pub(crate) max: usize,
    /// How long a verdict waits for others to be written with it.
    pub(crate) interval: Duration,
}

/// Verdicts that wait to be written.
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    batching: Batching,
    queue: VecDeque<Queued>,
    /// Verdicts that could not be written: the row is not visible, is locked, or the server refuses its change.
    unwritten: Vec<Unwritten>,
    look_at: Option<Instant>,
    wait: Duration,
    paused_until: Option<Instant>,
    /// Whether to skip locked rows, since another transaction holds locks.
    skip_locked: bool,
    /// Most verdicts in the next statement: fewer than usual while a row that cannot be written is searched for.
    limit: usize,
    /// Verdicts in the running statement.
    taken: usize,
}

crate::marked!(Settling {
    queue, unwritten, look_at, wait, paused_until, skip_locked, limit, taken
} not { batching });

#[derive(Clone, Debug)]
struct Queued {
    verdict: Verdict,
    since: Instant,
    /// Why it was not written before; `None`: it was not tried. A row that was unseen has a visible transaction now, so
    /// if it is missing again, it was deleted.
    because: Option<Because>,
}

crate::marked!(Queued { verdict, since, because });

#[derive(Clone, Debug)]
struct Unwritten {
    verdict: Verdict,
    because: Because,
}

crate::marked!(Unwritten { verdict, because });

/// Why a verdict is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Because {
    /// The row is not visible. This transaction must become visible first; `None`: it is not known.
    Unseen(Option<u32>),
    /// Another transaction has locked the row.
    Locked,
    /// The server refuses the change, for instance in a trigger of the user's.
    Refused,
}

#[cfg(feature = "faults")]
impl crate::Marked for Because {
    fn mark(&self, marks: &mut crate::Marks) {
        match self {
            Self::Unseen(xid) => marks.counted(crate::Kind::Xid, xid),
            Self::Locked => marks.plain(1),
            Self::Refused => marks.plain(2),
        }
    }
}

impl Settling {
    /// Nothing to write yet.
    pub(crate) fn new(batching: Batching) -> Self {
        Self {
            batching,
            queue: VecDeque::new(),
            unwritten: Vec::new(),
            look_at: None,
            wait: FIRST_WAIT,
            paused_until: None,
            skip_locked: false,
            limit: batching.max,
            taken: 0,
        }
    }

    /// Adds a verdict.
    pub(crate) fn push(&mut self, verdict: Verdict, now: Instant) {
        self.queue.push_back(Queued { verdict, since: now, because: None });
    }

    /// Whether no verdict waits to be written.
    pub(crate) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.unwritten.is_empty()
    }

    /// Verdicts that cannot be written now.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Verdicts that cannot be written now, including all that wait while statements fail as a whole, as on a locked
    /// table.
    pub(crate) fn delayed(&self) -> usize {
        let others = if self.paused_until.is_some() { self.queue.len() + self.taken } else { 0 };
        self.unwritten.len() + others
    }

    /// Whether a batch may be written before it is due, as a drain does.
    pub(crate) fn may_hurry(&self, now: Instant) -> bool {
        !self.queue.is_empty() && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When the next batch is due, unless more verdicts fill it before; `None`: no verdict waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        let oldest = self.queue.front()?.since;
        let due = if self.queue.len() >= self.batching.max { oldest } else { oldest + self.batching.interval };
        Some(self.paused_until.map_or(due, |until| due.max(until)))
    }

    /// Takes a batch. It holds no event twice, since two attempts of one event are two updates. A verdict that the
    /// server has refused goes alone, since it would fail the whole statement.
    pub(crate) fn take(&mut self) -> Batch {
        let count = self.limit.min(self.queue.len());
        let mut ids = HashSet::with_capacity_and_hasher(count, IdHash::default());
        let mut batch = Batch {
            verdicts: Vec::with_capacity(count),
            skip_locked: self.skip_locked,
            refused_before: false,
            last_chance: HashSet::default(),
        };
        while batch.verdicts.len() < self.limit && !batch.refused_before {
            let may_join = |next: &mut Queued| {
                let goes_alone = next.because == Some(Because::Refused);
                !(goes_alone && !ids.is_empty() || ids.contains(&next.verdict.id))
            };
            let Some(Queued { verdict, because, .. }) = self.queue.pop_front_if(may_join) else { break };
            ids.insert(verdict.id);
            batch.skip_locked |= because == Some(Because::Locked);
            batch.refused_before |= because == Some(Because::Refused);
            if matches!(because, Some(Because::Unseen(_))) {
                batch.last_chance.insert(verdict.id);
            }
            batch.verdicts.push(verdict);
        }
        self.taken = batch.verdicts.len();
        batch
    }

    /// The batch was not written, and comes first again after a pause. If it was a single verdict that the server
    /// refused, the verdict is kept for later, and the event's id is returned.
    pub(crate) fn put_back(&mut self, mut batch: Batch, remedy: Remedy, now: Instant, pause: Duration) -> Option<Uuid> {
        self.skip_locked = true; // a lock may have had a part in any failure
        self.taken = 0;
        if remedy == Remedy::Isolate {
            if batch.verdicts.len() == 1 {
                let verdict = batch.verdicts.pop()?;
                let id = verdict.id;
                self.unwritten.push(Unwritten { verdict, because: Because::Refused });
                return Some(id);
            }
            self.limit = (batch.verdicts.len() / 2).max(1);
        } else {
            self.paused_until = Some(now + pause); // the search for a row gets smaller each time, so it need not wait
        }
        if faults::is_on(Fault::FailedWriteDropped) {
            return None;
        }
        for verdict in batch.verdicts.into_iter().rev() {
            let because = batch.last_chance.contains(&verdict.id).then_some(Because::Unseen(None));
            self.queue.push_front(Queued { verdict, since: now, because });
        }
        None
    }

    /// The batch was written, with exceptions. Returns the verdicts that are done. `xid`: the transaction that brought
    /// an event.
    pub(crate) fn written(
        &mut self,
        batch: Batch,
        except: NotWritten,
        xid: impl Fn(&Uuid) -> Option<u32>,
    ) -> Vec<Settled> {
        (self.paused_until, self.taken) = (None, 0);
        self.limit = (self.limit * 2).min(self.batching.max);
        self.skip_locked = false; // only where needed: it costs a lock and a WAL record for each row
        let [missing, locked, finished] =
            [except.missing, except.locked, except.finished].map(HashSet::<Uuid, IdHash>::from_iter);
        let mut settled = Vec::with_capacity(batch.verdicts.len());
        for verdict in batch.verdicts {
            let id = verdict.id;
            let is_missing = missing.contains(&id);
            let may_appear = !batch.last_chance.contains(&id) && !faults::is_on(Fault::UnseenIsGone);
            if locked.contains(&id) {
                self.unwritten.push(Unwritten { verdict, because: Because::Locked });
            } else if is_missing && may_appear {
                self.unwritten.push(Unwritten { because: Because::Unseen(xid(&id)), verdict });
            } else {
                let gone = is_missing || finished.contains(&id);
                settled.push(Settled { verdict, gone });
            }
        }
        settled
    }

    /// Whether a snapshot is needed, to tell rows that are not yet visible from deleted ones.
    pub(crate) fn wants_snapshot(&self, now: Instant) -> bool {
        !self.unwritten.is_empty() && self.look_at.is_none_or(|at| at <= now)
    }

    /// When [`wants_snapshot`](Self::wants_snapshot) may become true without an input.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.look_at.filter(|_| !self.unwritten.is_empty())
    }

    /// Queues the verdicts again whose rows have become visible, all of locked rows, and some that the server refused.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot, now: Instant) {
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
        for Unwritten { verdict, because } in ready.into_iter().rev() {
            let queued = Queued { verdict, since: now, because: Some(because) };
            if because == Because::Refused {
                self.queue.push_back(queued);
            } else {
                self.queue.push_front(queued);
            }
        }
        self.look_at = Some(now + self.wait);
    }
}

/// A verdict that is done.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) verdict: Verdict,
    /// Whether nothing was written: the row was deleted, or someone else has finished the event.
    pub(crate) gone: bool,
}
