//! What becomes of batches that the broker has not taken.

use std::collections::VecDeque;

use super::{Flight, Outbox, Partition, Record, State};
use crate::{
    produce::confirm::{Confirm, ConfirmKind, Reason},
    record::message::Outgoing,
    wire::{
        codes::{self, Meaning},
        requests::BatchAnswer,
    },
};

/// Why a batch was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Because of an earlier one, or for a reason that has gone: its records leave again.
    Gap,
    TooLarge,
    /// Because of these records, with the reason of each; or of some, if there are none.
    Invalid(Vec<(usize, Reason)>, Reason),
    /// Because of the topic, for good.
    ForGood(Reason),
    /// Because of the topic's state.
    Unavailable(Reason),
}

impl Refused {
    pub(super) fn by(answer: BatchAnswer) -> Self {
        let BatchAnswer { code, text, culprits, .. } = answer;
        let reason = |text: Option<&String>| {
            let name = codes::name(code);
            Reason { code, text: text.map_or(name.clone(), |text| format!("{name}: {text}")) }
        };
        match Meaning::of(code) {
            Meaning::TooLarge => Self::TooLarge,
            Meaning::Invalid => {
                let named = culprits.iter().map(|(place, said)| {
                    (usize::try_from(*place).unwrap_or(usize::MAX), reason(said.as_ref().or(text.as_ref())))
                });
                Self::Invalid(named.collect(), reason(text.as_ref()))
            }
            Meaning::Unavailable => Self::Unavailable(reason(text.as_ref())),
            _ => Self::ForGood(reason(text.as_ref())),
        }
    }
}

impl Outbox {
    pub(super) fn taken<M: Outgoing>(&mut self, records: &[Record<M>]) {
        let taken = records.iter().map(|record| Confirm { id: record.message.id(), kind: ConfirmKind::Taken });
        self.confirms.extend(taken);
    }

    pub(crate) fn behind<M: Outgoing>(&mut self, message: &M) {
        self.confirms.push(Confirm { id: message.id(), kind: ConfirmKind::Behind });
    }

    /// Confirms a record that was not written. Returns the number of this refusal.
    fn refuse<M: Outgoing>(&mut self, message: &M, kind: ConfirmKind) -> u64 {
        self.refusals += 1;
        self.confirms.push(Confirm { id: message.id(), kind });
        self.refusals
    }
}

impl<M: Outgoing> Partition<M> {
    /// Decides about the first batches without a final answer, once nothing is on its way behind them.
    pub(super) fn resolve(&mut self, out: &mut Outbox) {
        if self.flights.iter().any(|flight| flight.state == State::Sent) {
            return;
        }
        let Some(first) = self.flights.front_mut() else { return };
        match first.state {
            State::NotWritten(Refused::Gap) => first.state = State::Again,
            State::NotWritten(_) => self.give_back(out),
            State::Again | State::Sent => {}
        }
    }

    /// The first batch was not written, so none behind it was, either. Confirms the records that are to blame, and
    /// those behind them; the others wait again.
    fn give_back(&mut self, out: &mut Outbox) {
        let flights = std::mem::take(&mut self.flights);
        self.next = flights.front().map_or(self.next, |first| first.base);
        let mut again = VecDeque::new();
        for Flight { records, size, state, .. } in flights {
            match state {
                State::NotWritten(Refused::TooLarge) if records.len() > 1 => {
                    self.most_bytes = self.most_bytes.min(size / 2);
                    again.extend(records);
                }
                State::NotWritten(Refused::TooLarge) => {
                    let code = codes::MESSAGE_TOO_LARGE;
                    let reason = Reason { code, text: codes::name(code) };
                    self.refuse_all(records, &ConfirmKind::Refused(reason), &mut again, out);
                }
                State::NotWritten(Refused::Invalid(culprits, reason)) => {
                    self.refuse_culprits(records, &culprits, reason, &mut again, out);
                }
                State::NotWritten(Refused::ForGood(reason)) => {
                    self.refuse_all(records, &ConfirmKind::Refused(reason), &mut again, out);
                }
                State::NotWritten(Refused::Unavailable(reason)) => {
                    self.refuse_all(records, &ConfirmKind::Unavailable(reason), &mut again, out);
                }
                State::NotWritten(Refused::Gap) | State::Again | State::Sent => again.extend(records),
            }
        }
        again.append(&mut self.waiting);
        self.waiting = again;
        self.release_behind(out);
    }

    fn refuse_culprits(
        &mut self,
        records: Vec<Record<M>>,
        culprits: &[(usize, Reason)],
        reason: Reason,
        again: &mut VecDeque<Record<M>>,
        out: &mut Outbox,
    ) {
        if culprits.is_empty() && records.len() > 1 {
            self.singly = again.len() + records.len();
            return again.extend(records);
        }
        let is_only = records.len() == 1;
        for (place, mut record) in records.into_iter().enumerate() {
            let named = culprits.iter().find(|(culprit, _)| *culprit == place).map(|(_, reason)| reason);
            let Some(reason) = named.or(is_only.then_some(&reason)) else {
                again.push_back(record);
                continue;
            };
            let key = record.message.key();
            let is_earlier = |other: &Record<M>| key.is_some() && other.message.key() == key;
            if self.keeps_order && again.iter().any(is_earlier) {
                // Records with a key are confirmed in their order, so it is refused once more, behind the earlier ones.
                record.begins_batch = true;
                again.push_back(record);
            } else {
                self.refuse(&record, ConfirmKind::Refused(reason.clone()), out);
            }
        }
    }

    /// Confirms all of these records, but those behind an earlier one of their key.
    pub(crate) fn refuse_all(
        &mut self,
        records: impl IntoIterator<Item = Record<M>>,
        kind: &ConfirmKind,
        again: &mut VecDeque<Record<M>>,
        out: &mut Outbox,
    ) {
        for record in records {
            let key = record.message.key();
            if self.keeps_order && again.iter().any(|other| key.is_some() && other.message.key() == key) {
                again.push_back(record);
            } else if self.is_behind(&record) {
                out.behind(&record.message);
            } else {
                self.refuse(&record, kind.clone(), out);
            }
        }
    }

    /// Refuses the first waiting record, which the producer itself cannot write.
    pub(super) fn refuse_first(&mut self, why: String, out: &mut Outbox) {
        let Some(record) = self.waiting.pop_front() else { return };
        self.singly = self.singly.saturating_sub(1);
        self.refuse(&record, ConfirmKind::Refused(Reason { code: 0, text: why }), out);
        self.release_behind(out);
    }

    fn refuse(&mut self, record: &Record<M>, kind: ConfirmKind, out: &mut Outbox) {
        let refusal = out.refuse(&record.message, kind);
        if let Some(key) = record.message.key().filter(|_| self.keeps_order) {
            self.held.insert(key.into(), refusal);
        }
    }

    /// Whether the record is behind an earlier one of its key that was not written, as far as the caller does not know.
    pub(crate) fn is_behind(&self, record: &Record<M>) -> bool {
        let refusal = record.message.key().filter(|_| self.keeps_order).and_then(|key| self.held.get(key));
        refusal.is_some_and(|refusal| record.known < *refusal)
    }

    /// Confirms the waiting records that are behind one that was not written.
    pub(crate) fn release_behind(&mut self, out: &mut Outbox) {
        if self.held.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (behind, stay): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|record| self.is_behind(record));
        behind.iter().for_each(|record| out.behind(&record.message));
        self.waiting = stay.into();
    }
}
