//! One topic: its partitions, and the records that wait until these are known. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    confirm::{ConfirmKind, Reason},
    confirms::{Confirms, Record},
    partition::{LostIdentity, Partition},
};
use crate::{
    connect::control::TopicMetadata,
    record::{message::Outgoing, murmur2::partition},
    wire::codes::{self, Meaning},
};

/// A topic that does not exist, or a partition without a leader, is looked for once more after this time, before its
/// records are confirmed: a broker learns of a new topic some moments late.
const SECOND_LOOK: Duration = Duration::from_millis(500);
/// How long a batch that may have been written waits for its topic to be there again.
const GONE: Duration = Duration::from_secs(5);

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic<M> {
    pub(crate) name: String,
    /// The partitions, each with its leader; empty: they are not known.
    pub(crate) partitions: Vec<(Partition<M>, Option<i32>)>,
    /// Records that wait until the partitions are known.
    waiting: VecDeque<Record<M>>,
    /// How many partitions there will be once nothing is in flight: a key may move then.
    grows_to: Option<Vec<Option<i32>>>,
    /// Since when the topic has been missing; `None`: as far as is known, it exists.
    missing_since: Option<Instant>,
    /// Since when some partitions have had no leader.
    leaderless_since: Option<Instant>,
    /// Whether its metadata are to be asked for, and from when on.
    pub(crate) ask_at: Option<Instant>,
    /// The partition of the latest record without a key.
    sticky: usize,
}

impl<M: Outgoing> Topic<M> {
    pub(crate) fn new(name: String, now: Instant) -> Self {
        let is_legal = is_legal(&name);
        Self {
            name,
            partitions: Vec::new(),
            waiting: VecDeque::new(),
            grows_to: None,
            missing_since: None,
            leaderless_since: None,
            ask_at: is_legal.then_some(now),
            sticky: 0,
        }
    }

    /// Takes a record.
    pub(crate) fn push(&mut self, record: Record<M>, now: Instant, out: &mut Confirms) {
        let Some(record) = out.unless_behind(record) else { return };
        if !self.is_legal() {
            let code = codes::INVALID_TOPIC_EXCEPTION;
            return out.refuse(&record, ConfirmKind::Refused(Reason { code, text: codes::name(code) }));
        }
        if self.missing_since.is_some() {
            self.ask_at.get_or_insert(now); // it may have been made meanwhile
        }
        // No record passes one that waits.
        if self.missing_since.is_some() || self.partitions.is_empty() || self.grows_to.is_some() || self.waits() {
            self.waiting.push_back(record);
        } else {
            self.place(record);
        }
    }

    /// Confirms the records that wait behind one that was not written.
    pub(crate) fn release_behind(&mut self, out: &mut Confirms) {
        out.release_behind(&mut self.waiting);
    }

    /// Whether Kafka allows a topic of this name.
    pub(crate) fn is_legal(&self) -> bool {
        is_legal(&self.name)
    }

    /// Whether records wait until the partitions are known.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn place(&mut self, record: Record<M>) {
        let count = self.partitions.len();
        let place = match record.message.key() {
            Some(key) => partition(key, count),
            None => self.sticky % count,
        };
        if let Some((partition, _)) = self.partitions.get_mut(place) {
            partition.push(record);
        }
    }

    /// Records without a key go to another partition from now on, one with a leader if there is any.
    pub(crate) fn turn(&mut self) {
        let count = self.partitions.len();
        let next = (1..=count).map(|step| (self.sticky + step) % count.max(1));
        let has_leader = |place: &usize| self.partitions.get(*place).is_some_and(|(_, leader)| leader.is_some());
        self.sticky = next.clone().find(has_leader).or_else(|| next.clone().next()).unwrap_or(0);
    }

    /// Whether nothing would be forgotten with the topic: nothing was written to it, and nothing waits.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.partitions.is_empty() && self.waiting.is_empty()
    }

    /// Learns what the cluster says of the topic.
    ///
    /// # Errors
    ///
    /// The topic was deleted, and a batch may have been written before; or it was made again with fewer partitions. The
    /// numbers of its records mean nothing any more.
    pub(crate) fn learn(
        &mut self,
        metadata: TopicMetadata,
        now: Instant,
        out: &mut Confirms,
    ) -> Result<(), LostIdentity> {
        self.ask_at = None;
        let reason = || Reason { code: metadata.code, text: codes::name(metadata.code) };
        let missing = match Meaning::of(metadata.code) {
            Meaning::NoTopic => Some(ConfirmKind::NoTopic(reason())),
            Meaning::Refused => Some(ConfirmKind::Refused(reason())),
            _ => None,
        };
        if let Some(kind) = missing {
            return self.is_missing(kind, now, out);
        }
        self.missing_since = None;
        if metadata.leaders.is_empty() {
            self.ask_at = Some(now + SECOND_LOOK);
            return Ok(());
        }
        let lacks_leader = metadata.leaders.iter().any(Option::is_none);
        let count = metadata.leaders.len();
        if count < self.partitions.len() {
            return Err(LostIdentity(format!("the topic {} has fewer partitions than before", self.name)));
        }
        if self.partitions.is_empty() {
            self.partitions.resize_with(count, || (Partition::new(), None));
        }
        for ((_, leader), now) in self.partitions.iter_mut().zip(&metadata.leaders) {
            *leader = *now;
        }
        if count > self.partitions.len() {
            self.grows_to = Some(metadata.leaders);
            self.grow(out);
        } else {
            self.place_waiting(out);
        }
        if lacks_leader {
            self.without_leader(now, out);
        } else {
            self.leaderless_since = None;
        }
        Ok(())
    }

    /// Takes new partitions into use once nothing is in flight, so that a key's records stay in their order.
    pub(crate) fn grow(&mut self, out: &mut Confirms) {
        if self.grows_to.is_none() || !self.partitions.iter().all(|(partition, _)| partition.is_idle()) {
            return;
        }
        let Some(leaders) = self.grows_to.take() else { return };
        self.partitions.resize_with(leaders.len(), || (Partition::new(), None));
        for ((_, leader), now) in self.partitions.iter_mut().zip(leaders) {
            *leader = now;
        }
        self.place_waiting(out);
    }

    fn place_waiting(&mut self, out: &mut Confirms) {
        self.release_behind(out);
        for record in std::mem::take(&mut self.waiting) {
            self.place(record);
        }
    }

    /// The topic does not exist, or nobody may write to it.
    fn is_missing(&mut self, kind: ConfirmKind, now: Instant, out: &mut Confirms) -> Result<(), LostIdentity> {
        let missing_for = now.duration_since(*self.missing_since.get_or_insert(now));
        if missing_for < SECOND_LOOK {
            self.ask_at = Some(now + SECOND_LOOK);
            return Ok(());
        }
        let mut records: Vec<Record<M>> = Vec::new();
        for (partition, _) in &mut self.partitions {
            records.extend(partition.take_unwritten());
        }
        // Behind a record that may have been written, others of its key wait for its confirm.
        if self.partitions.iter().all(|(partition, _)| partition.is_idle()) {
            records.extend(self.waiting.drain(..));
            self.partitions.clear(); // a topic of this name that is made later begins anew
            self.grows_to = None;
        } else if missing_for >= GONE && self.partitions.iter().any(|(partition, _)| partition.is_in_doubt()) {
            return Err(LostIdentity(format!("the topic {} is gone, and nobody knows what it had", self.name)));
        } else {
            self.ask_at = Some(now + SECOND_LOOK);
        }
        out.refuse_all(records, &kind, &mut VecDeque::new());
        Ok(())
    }

    /// Partitions without a leader take nothing now.
    fn without_leader(&mut self, now: Instant, out: &mut Confirms) {
        let leaderless = Reason { code: codes::LEADER_NOT_AVAILABLE, text: codes::name(codes::LEADER_NOT_AVAILABLE) };
        let kind = ConfirmKind::Unavailable(leaderless);
        let since = *self.leaderless_since.get_or_insert(now);
        self.ask_at = Some(now + SECOND_LOOK);
        if now.duration_since(since) < SECOND_LOOK {
            return;
        }
        for (partition, _) in self.partitions.iter_mut().filter(|(_, leader)| leader.is_none()) {
            let records = partition.take_unwritten();
            out.refuse_all(records, &kind, &mut VecDeque::new());
        }
    }
}

/// Whether Kafka allows a topic of this name: <https://kafka.apache.org/documentation/#brokerconfigs>, as its
/// `Topic.validate` has it.
fn is_legal(name: &str) -> bool {
    const MOST: usize = 249;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MOST).contains(&name.len()) && name.bytes().all(is_allowed) && name != "." && name != ".."
}
