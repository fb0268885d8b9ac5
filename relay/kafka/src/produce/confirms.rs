//! Records without a confirm, the confirms that the caller has not fetched yet, and which record is behind another.

use std::collections::{HashMap, VecDeque};

use super::confirm::{Confirm, ConfirmKind};
use crate::record::message::Outgoing;

/// A record that waits or is in flight.
#[derive(Debug)]
pub(crate) struct Record<M> {
    pub(crate) message: M,
    /// How many refusals the caller knew when it handed the record over.
    pub(crate) known: u64,
    /// Whether it does not share a batch with earlier ones.
    pub(super) begins_batch: bool,
}

impl<M> Record<M> {
    pub(crate) fn new(message: M, known: u64) -> Self {
        Self { message, known, begins_batch: false }
    }
}

/// Confirms that the caller has not fetched yet, and the refusals that it does not know.
#[derive(Debug)]
pub(crate) struct Confirms {
    /// Whether records with the same topic and key are confirmed in their order, and none is written behind one that
    /// was not.
    pub(super) keeps_order: bool,
    pub(crate) ready: Vec<Confirm>,
    /// How many confirms so far say that a record was not written.
    pub(crate) refusals: u64,
    /// How many of them the caller knows.
    known: u64,
    /// By topic, the keys of records that were not written, with the number of that refusal: a record whose caller does
    /// not know it is behind. A topic's partitions may change before the caller knows, so no partition keeps them.
    held: HashMap<String, HashMap<Box<[u8]>, u64>>,
}

impl Confirms {
    pub(crate) fn new(keeps_order: bool) -> Self {
        Self { keeps_order, ready: Vec::new(), refusals: 0, known: 0, held: HashMap::new() }
    }

    /// The caller knows so many refusals, so no later record is behind these.
    pub(super) fn knows(&mut self, known: u64) {
        if known <= self.known {
            return;
        }
        self.known = known;
        self.held.retain(|_, keys| {
            keys.retain(|_, refusal| *refusal > known);
            !keys.is_empty()
        });
    }

    pub(super) fn taken<M: Outgoing>(&mut self, records: &[Record<M>]) {
        let taken = records.iter().map(|record| Confirm { id: record.message.id(), kind: ConfirmKind::Taken });
        self.ready.extend(taken);
    }

    /// Confirms a record that was not written.
    pub(super) fn refuse<M: Outgoing>(&mut self, record: &Record<M>, kind: ConfirmKind) {
        self.refusals += 1;
        self.ready.push(Confirm { id: record.message.id(), kind });
        if let Some(key) = record.message.key().filter(|_| self.keeps_order) {
            let keys = self.held.entry(record.message.topic().to_owned()).or_default();
            keys.insert(key.into(), self.refusals);
        }
    }

    /// Confirms all of these records, but those behind an earlier one of their key, which wait `again`.
    pub(super) fn refuse_all<M: Outgoing>(
        &mut self,
        records: impl IntoIterator<Item = Record<M>>,
        kind: &ConfirmKind,
        again: &mut VecDeque<Record<M>>,
    ) {
        for record in records {
            if self.follows(&record, again) {
                again.push_back(record);
            } else if let Some(record) = self.unless_behind(record) {
                self.refuse(&record, kind.clone());
            }
        }
    }

    /// Whether one of these has the record's key, and the order counts.
    pub(super) fn follows<M: Outgoing>(&self, record: &Record<M>, earlier: &VecDeque<Record<M>>) -> bool {
        let key = record.message.key().filter(|_| self.keeps_order);
        key.is_some() && earlier.iter().any(|other| other.message.key() == key)
    }

    /// Confirms the record if it is behind an earlier one of its key that was not written, as far as the caller does
    /// not know; else returns it.
    pub(super) fn unless_behind<M: Outgoing>(&mut self, record: Record<M>) -> Option<Record<M>> {
        let refusal = (!self.held.is_empty()).then(|| self.held.get(record.message.topic())).flatten();
        let refusal = refusal.and_then(|keys| keys.get(record.message.key()?));
        if refusal.is_none_or(|refusal| record.known >= *refusal) {
            return Some(record);
        }
        self.ready.push(Confirm { id: record.message.id(), kind: ConfirmKind::Behind });
        None
    }

    /// Confirms the records that are behind one that was not written.
    pub(super) fn release_behind<M: Outgoing>(&mut self, waiting: &mut VecDeque<Record<M>>) {
        if !self.held.is_empty() && !waiting.is_empty() {
            *waiting = std::mem::take(waiting).into_iter().filter_map(|record| self.unless_behind(record)).collect();
        }
    }
}
