//! When a suspect leaves: alone, and after others if it has ended a connection ([`REST`](super::REST)).

use std::{cmp::Reverse, sync::Arc, time::Instant};

use super::SUSPECT_AFTER;
use crate::{dispatch::Dispatch, interface::Event};

impl Dispatch {
    /// The events that may leave while a suspect is in flight or is the next: the suspect alone, or none. `None`: any
    /// event may.
    pub(in crate::dispatch) fn next_suspect(&mut self, max: usize, now: Instant) -> Option<Vec<Arc<Event>>> {
        if self.suspects.here == 0 {
            return None; // nearly always
        }
        self.stop_waiting_for_suspect(now);
        self.rest(now);
        while self.suspects.alone.is_none() && self.is_suspect_next() {
            if self.others_in_flight(now) || self.split_off.len() >= max {
                return Some(Vec::new());
            }
            let Some((_, id)) = self.ready.pop().map(|ready| ready.0) else { break };
            if let Some(destination) = self.silent_destination(&id) {
                let leaves = self.leave_on_side_channel(&id, destination, now);
                self.suspects.alone = leaves.then_some(id);
                self.suspects.left_at = Some(now);
            } else if let Some(event) = self.hand_over(&id) {
                (self.suspects.alone, self.suspects.left_at) = (Some(id), Some(now));
                return Some(vec![event]);
            }
        }
        self.suspects.alone.map(|_| Vec::new())
    }

    /// Makes the events that have ended connections rest while others leave.
    fn rest(&mut self, now: Instant) {
        let rests = self.suspects.rests_until.is_some_and(|until| now < until);
        while rests && self.is_suspect_next() {
            let Some(Reverse((order, id))) = self.ready.peek().copied() else { break };
            if !self.suspects.enders.contains_key(&id) {
                return;
            }
            self.ready.pop();
            self.suspects.resting.push((order, id));
        }
        let nobody_waits = self.ready.is_empty() && self.availability.published() == self.suspects.connected_at;
        if !rests || nobody_waits {
            self.suspects.rests_until = None;
            self.ready.extend(self.suspects.resting.drain(..).map(Reverse));
        }
    }

    /// Stops waiting for the suspect in flight once its time is over. It holds its key from then on: a later event of
    /// the key that ended the connection would leave the table before it.
    fn stop_waiting_for_suspect(&mut self, now: Instant) {
        if self.suspects.alone_until().is_none_or(|until| now < until) {
            return;
        }
        let Some(id) = self.suspects.alone.take() else { return };
        if let Some(tracked) = self.tracked.get_mut(&id) {
            self.suspects.outlasts(id, std::mem::take(&mut tracked.endings));
        }
        self.hold_key(&id);
    }

    /// Whether other events are in flight that could end the connection, so that no suspect can leave alone.
    fn others_in_flight(&self, now: Instant) -> bool {
        let late = self.silences.late(now).filter(|id| !self.suspects.outlasted.contains(*id)).count();
        self.in_flight > late + self.suspects.outlasted.len()
    }

    /// Whether the next event is a suspect.
    pub(in crate::dispatch) fn is_suspect_next(&self) -> bool {
        self.suspects.here > 0
            && self
                .ready
                .peek()
                .and_then(|ready| self.tracked.get(&ready.0.1))
                .is_some_and(|tracked| tracked.endings >= SUSPECT_AFTER)
    }
}
