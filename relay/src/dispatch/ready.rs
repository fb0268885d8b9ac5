//! Events that may leave, in order of admission.

use std::collections::VecDeque;

use uuid::Uuid;

/// The longest waiting leaves first, so a hot key does not queue up anew for each event, and no number of hot keys keeps
/// another waiting.
///
/// A sorted deque, because nearly every event joins at the end, and one that was held until now near the front. With a
/// `BTreeMap` it was a twentieth of all instructions for an event.
#[derive(Debug, Default)]
pub(super) struct Ready(VecDeque<(u64, Uuid)>);

impl Ready {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the event that was admitted as number `order`.
    pub(super) fn push(&mut self, order: u64, id: Uuid) {
        let is_last = self.0.back().is_none_or(|(last, _)| *last < order);
        let place = if is_last { self.0.len() } else { self.0.partition_point(|(other, _)| *other < order) };
        self.0.insert(place, (order, id));
    }

    /// Adds many, in whatever order they come.
    pub(super) fn extend(&mut self, events: impl Iterator<Item = (u64, Uuid)>) {
        self.0.extend(events);
        self.0.make_contiguous().sort_unstable();
    }

    /// Takes the event that was admitted first.
    pub(super) fn pop(&mut self) -> Option<Uuid> {
        self.0.pop_front().map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_in_the_order_in_which_they_were_admitted() {
        let mut ready = Ready::default();
        for order in [1, 3, 7, 2, 9, 8] {
            ready.push(order, Uuid::from_u128(order.into()));
        }
        assert_eq!(ready.pop(), Some(Uuid::from_u128(1)));
        ready.extend([6, 1, 4].map(|order| (order, Uuid::from_u128(order.into()))).into_iter());
        let left: Vec<u128> = std::iter::from_fn(|| ready.pop()).map(|id| id.as_u128()).collect();
        assert_eq!(left, [1, 2, 3, 4, 6, 7, 8, 9]);
    }
}
