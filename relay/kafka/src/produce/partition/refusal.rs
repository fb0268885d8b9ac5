//! What becomes of batches that the broker has not taken.

use std::collections::VecDeque;

use super::{Flight, Partition, State};
use crate::{
    produce::{
        confirm::{ConfirmKind, Reason},
        confirms::{Confirms, Record},
    },
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

impl<M: Outgoing> Partition<M> {
    /// Decides about the first batches without a final answer, once nothing is on its way behind them.
    pub(super) fn resolve(&mut self, out: &mut Confirms) {
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
    fn give_back(&mut self, out: &mut Confirms) {
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
                    out.refuse_all(records, &ConfirmKind::Refused(reason), &mut again);
                }
                State::NotWritten(Refused::Invalid(culprits, reason)) => {
                    self.refuse_culprits(records, &culprits, reason, &mut again, out);
                }
                State::NotWritten(Refused::ForGood(reason)) => {
                    out.refuse_all(records, &ConfirmKind::Refused(reason), &mut again);
                }
                State::NotWritten(Refused::Unavailable(reason)) => {
                    out.refuse_all(records, &ConfirmKind::Unavailable(reason), &mut again);
                }
                State::NotWritten(Refused::Gap) | State::Again | State::Sent => again.extend(records),
            }
        }
        again.append(&mut self.waiting);
        self.waiting = again;
        out.release_behind(&mut self.waiting);
    }

    fn refuse_culprits(
        &mut self,
        records: Vec<Record<M>>,
        culprits: &[(usize, Reason)],
        reason: Reason,
        again: &mut VecDeque<Record<M>>,
        out: &mut Confirms,
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
            if out.follows(&record, again) {
                // Records with a key are confirmed in their order, so it is refused once more, behind the earlier ones.
                record.begins_batch = true;
                again.push_back(record);
            } else {
                out.refuse(&record, ConfirmKind::Refused(reason.clone()));
            }
        }
    }

    /// Refuses the first waiting record, which the producer itself cannot write.
    pub(super) fn refuse_first(&mut self, why: String, out: &mut Confirms) {
        let Some(record) = self.waiting.pop_front() else { return };
        self.singly = self.singly.saturating_sub(1);
        out.refuse(&record, ConfirmKind::Refused(Reason { code: 0, text: why }));
        out.release_behind(&mut self.waiting);
    }
}
