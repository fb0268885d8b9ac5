//! Events that come back from an ordered sink, which has not taken them because it has not taken an earlier one of
//! their key. They leave again in their old order, and no event of the key leaves before all have come back.

use std::cmp::Reverse;

use uuid::Uuid;

use super::{Dispatch, State};
use crate::{
    faults::{self, Fault},
    interface::Now,
};

impl Dispatch {
    /// The sink has not taken the event, because it has not taken an earlier one. It is ready again, with its old place
    /// in the order; if its key is held by then, it goes back to the table when its turn comes.
    pub(super) fn came_back(&mut self, id: &Uuid, now: Now) {
        let Some(tracked) = self.tracked.get_mut(id) else { return };
        tracked.state = State::Ready;
        tracked.attempts += u32::from(faults::is_on(Fault::BehindCounts));
        let order = tracked.order;
        self.suspects.answered(id, std::mem::take(&mut tracked.endings));
        if let Some(trial) = self.silences.answered(id) {
            self.silences.ended(trial.destination);
        }
        self.in_flight -= 1;
        self.ready.push(Reverse((order, *id)));
        if self.in_flight <= self.silences.trials() {
            self.availability.came_back(now.instant);
        }
    }

    /// All later events have come back: the others of the key are ready.
    pub(super) fn end_returning(&mut self) {
        self.ready.extend(self.behind.drain(..).map(Reverse));
    }

    /// Makes a ready event wait if later events of its key have yet to come back. An event that holds its key does not
    /// wait: the others do not leave before it.
    pub(super) fn waits_for_return(&mut self, id: &Uuid) -> bool {
        if !self.keys.are_ordered_by_sink() {
            return false; // spares a lookup for each event
        }
        let Some(tracked) = self.tracked.get(id).filter(|tracked| !tracked.is_holder) else { return false };
        let waits = tracked.key.is_some_and(|key| self.keys.is_returning(key));
        if waits {
            self.behind.push((tracked.order, *id));
        }
        waits
    }
}
