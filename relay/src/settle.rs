//! Verdicts on their way into the table. Pure: the session does the writing.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{dispatch::Settlement, snapshot::Snapshot};

/// Wait before a row that could not be seen is tried again; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// Under synchronous replication a commit can stay invisible for as long as a standby is away.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

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
    /// Written, but no row was there: not visible yet, or gone.
    unseen: Vec<Unseen>,
    look_at: Option<Instant>,
    wait: Duration,
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct Verdict {
    settlement: Settlement,
    since: Instant,
    /// Its transaction was visible before this attempt: if the row is not there now, it was deleted.
    last_chance: bool,
}

#[derive(Debug)]
struct Unseen {
    settlement: Settlement,
    xid: Option<u32>,
}

/// Verdicts of one statement.
#[derive(Debug)]
pub struct Batch {
    /// What to write; no event twice.
    pub settlements: Vec<Settlement>,
    last_chance: HashSet<Uuid>,
}

impl Settling {
    /// Nothing to write yet.
    pub fn new(batching: Batching) -> Self {
        Self {
            batching,
            queue: VecDeque::new(),
            unseen: Vec::new(),
            look_at: None,
            wait: FIRST_WAIT,
            paused_until: None,
        }
    }

    /// Adds a verdict.
    pub fn push(&mut self, settlement: Settlement, now: Instant) {
        self.queue.push_back(Verdict { settlement, since: now, last_chance: false });
    }

    /// Whether no verdict waits to be written.
    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.unseen.is_empty()
    }

    /// When the next batch is due, if more verdicts do not fill it before.
    pub fn due(&self) -> Option<Instant> {
        let oldest = self.queue.front()?.since;
        let due = if self.queue.len() >= self.batching.max { oldest } else { oldest + self.batching.interval };
        Some(self.paused_until.map_or(due, |until| due.max(until)))
    }

    /// Takes a batch. It ends before an event that is in it already: two attempts of one event are two updates.
    pub fn take(&mut self) -> Batch {
        let mut ids = HashSet::new();
        let mut batch = Batch { settlements: Vec::new(), last_chance: HashSet::new() };
        while batch.settlements.len() < self.batching.max {
            let Some(verdict) = self.queue.pop_front_if(|verdict| ids.insert(verdict.settlement.id)) else { break };
            if verdict.last_chance {
                batch.last_chance.insert(verdict.settlement.id);
            }
            batch.settlements.push(verdict.settlement);
        }
        batch
    }

    /// The batch was not written; it comes first, after a pause.
    pub fn put_back(&mut self, batch: Batch, now: Instant, pause: Duration) {
        self.paused_until = Some(now + pause);
        for settlement in batch.settlements.into_iter().rev() {
            let last_chance = batch.last_chance.contains(&settlement.id);
            self.queue.push_front(Verdict { settlement, since: now, last_chance });
        }
    }

    /// The batch was written, except where no row was to be seen. Returns the settlements that are done.
    pub fn written(&mut self, batch: Batch, missing: &HashSet<Uuid>, xid: impl Fn(&Uuid) -> Option<u32>) -> Vec<Done> {
        self.paused_until = None;
        let mut done = Vec::with_capacity(batch.settlements.len());
        for settlement in batch.settlements {
            let gone = missing.contains(&settlement.id);
            if gone && !batch.last_chance.contains(&settlement.id) {
                self.unseen.push(Unseen { xid: xid(&settlement.id), settlement });
            } else {
                done.push(Done { settlement, gone });
            }
        }
        done
    }

    /// Whether a snapshot is needed, to tell the rows that are not visible yet from those that are gone.
    pub fn wants_snapshot(&self, now: Instant) -> bool {
        !self.unseen.is_empty() && self.look_at.is_none_or(|at| at <= now)
    }

    /// When [`wants_snapshot`](Self::wants_snapshot) may become true by itself.
    pub fn next_look(&self) -> Option<Instant> {
        self.look_at.filter(|_| !self.unseen.is_empty())
    }

    /// Queues again what has become visible.
    pub fn seen(&mut self, snapshot: &Snapshot, now: Instant) {
        if self.unseen.is_empty() {
            return;
        }
        let (visible, unseen): (Vec<_>, Vec<_>) =
            self.unseen.drain(..).partition(|unseen| unseen.xid.is_none_or(|xid| snapshot.sees(xid)));
        self.unseen = unseen;
        self.wait = if visible.is_empty() { (self.wait * 2).min(LONGEST_WAIT) } else { FIRST_WAIT };
        for Unseen { settlement, .. } in visible.into_iter().rev() {
            self.queue.push_front(Verdict { settlement, since: now, last_chance: true });
        }
        self.look_at = Some(now + self.wait);
    }
}

/// A verdict that needs no more writing.
#[derive(Debug)]
pub struct Done {
    /// The verdict.
    pub settlement: Settlement,
    /// The row was deleted before it could be written.
    pub gone: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Status;

    const BATCHING: Batching = Batching { max: 3, interval: Duration::from_millis(5) };

    fn sent(id: u128) -> Settlement {
        Settlement { id: Uuid::from_u128(id), status: Status::Sent, error: None }
    }

    fn ids(batch: &Batch) -> Vec<u128> {
        batch.settlements.iter().map(|settlement| settlement.id.as_u128()).collect()
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_its_oldest_verdict_has_waited_long_enough() {
        let now = Instant::now();
        let mut settling = Settling::new(BATCHING);
        assert_eq!(settling.due(), None);
        settling.push(sent(1), now);
        assert_eq!(settling.due(), Some(now + BATCHING.interval));
        settling.push(sent(2), now);
        settling.push(sent(3), now);
        assert_eq!(settling.due(), Some(now));
        settling.push(sent(4), now);
        assert_eq!(ids(&settling.take()), [1, 2, 3]);
        assert_eq!(ids(&settling.take()), [4]);
    }

    #[test]
    fn two_attempts_of_one_event_are_written_one_after_the_other() {
        let now = Instant::now();
        let mut settling = Settling::new(BATCHING);
        settling.push(Settlement { status: Status::Pending, error: Some("nack".into()), ..sent(1) }, now);
        settling.push(sent(1), now);
        assert_eq!(settling.take().settlements[0].status, Status::Pending);
        assert_eq!(settling.take().settlements[0].status, Status::Sent);
    }

    #[test]
    fn a_batch_that_could_not_be_written_comes_first_again_after_a_pause() {
        let now = Instant::now();
        let mut settling = Settling::new(BATCHING);
        (1..=4).for_each(|id| settling.push(sent(id), now));
        let batch = settling.take();
        let pause = Duration::from_millis(100);
        settling.put_back(batch, now, pause);
        assert_eq!(settling.due(), Some(now + pause));
        assert_eq!(ids(&settling.take()), [1, 2, 3]);
    }

    #[test]
    fn a_row_that_is_not_visible_yet_is_tried_again_and_only_then_taken_for_gone() {
        let now = Instant::now();
        let mut settling = Settling::new(BATCHING);
        settling.push(sent(1), now);
        let missing = HashSet::from([Uuid::from_u128(1)]);
        let batch = settling.take();
        assert!(settling.written(batch, &missing, |_| Some(20)).is_empty());
        assert!(settling.wants_snapshot(now));
        settling.seen(&"20:20:".parse().unwrap(), now);
        assert!(settling.due().is_none() && !settling.wants_snapshot(now), "its transaction is in progress: wait");
        let later = settling.next_look().unwrap();
        assert!(settling.wants_snapshot(later));
        settling.seen(&"21:21:".parse().unwrap(), later);
        let batch = settling.take();
        assert_eq!(ids(&batch), [1]);
        let done = settling.written(batch, &missing, |_| Some(20));
        assert!(done.len() == 1 && done[0].gone, "visible and not there: it was deleted");
    }
}
