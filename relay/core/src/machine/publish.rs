//! Which events are handed to the broker, and how many.

use super::Core;
use crate::{
    dispatch::SplitOff,
    faults::{self, Fault},
    interface::{Effect, Now, Outcome},
};

impl Core {
    /// Lets the sink read back before it publishes.
    pub(super) fn read_back(&mut self) -> Option<Effect> {
        let (since_us, older) = self.link.is_ready().then(|| self.read_back.take())??;
        Some(Effect::ReadBack { since_us, older })
    }

    pub(super) fn publish(&mut self, now: Now) -> Option<Effect> {
        if !self.link.is_ready() || self.takes_nothing_new() {
            return None;
        }
        let (batch, beside) = loop {
            let max = if faults::is_on(Fault::RateIgnored) {
                self.may_publish()
            } else {
                self.pace.allows(self.may_publish().min(self.dispatch.ready()), now.instant)
            };
            let mut batch = self.dispatch.next_batch(max, now);
            let SplitOff { on_side_channels: mut beside, verdicts, too_large } = self.dispatch.take_split_off();
            let mut delivered = self.read_back.take_delivered(&mut batch);
            delivered.append(&mut self.read_back.take_delivered(&mut beside));
            let is_empty = batch.is_empty() && beside.is_empty();
            let only_verdicts = is_empty && !(verdicts.is_empty() && too_large.is_empty() && delivered.is_empty());
            self.answered(delivered.into_iter().map(|id| (id, Outcome::Found)).collect(), now);
            for (verdict, event) in too_large {
                self.decided(verdict, event, now.instant);
            }
            for (verdict, event) in verdicts {
                self.read_back.put_off(&event, now);
                self.settling.push(verdict, now.instant);
            }
            if !only_verdicts {
                break (batch, beside); // otherwise later events may leave
            }
        };
        self.pace.left(batch.len() + beside.len(), now.instant);
        self.leave_behind();
        if faults::is_on(Fault::SettleBeforeConfirm) {
            let delivered = batch.iter().map(|event| (event.id, Outcome::Delivered));
            self.answered(delivered.collect(), now);
        }
        self.read_back.handed_over(batch.iter().chain(&beside).map(AsRef::as_ref), now);
        self.tally.published(batch.len() + beside.len());
        (!batch.is_empty() || !beside.is_empty()).then_some(Effect::Publish { batch, beside })
    }

    /// How many events may be handed to the broker now. Beyond `in_flight`, two batches of verdicts may be unwritten
    /// (one running, one filling), and those that cannot be written: so a bounded number of events is delivered twice
    /// after a crash.
    pub(super) fn may_publish(&self) -> usize {
        let unconfirmed = self.config.in_flight.saturating_sub(self.dispatch.on_main_channel());
        if faults::is_on(Fault::UnsettledUnbounded) {
            return unconfirmed;
        }
        let bound = self.config.in_flight
            + 2 * self.config.settle_batch
            + self.settling.unwritten()
            + self.dispatch.on_side_channels();
        unconfirmed.min(bound.saturating_sub(self.dispatch.unsettled()))
    }

    /// Events that went back to the table will be found there by a pass, so their commits no longer wait for them.
    pub(super) fn leave_behind(&mut self) {
        for left in self.dispatch.take_left_behind() {
            self.resync.left_behind(left.origin);
            if let Some(ticket) = left.ticket {
                self.progress.settled(ticket);
            }
        }
    }
}
