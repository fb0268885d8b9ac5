//! What counts of a world, for a state's fingerprint. Numbers of sessions, connections and operations do not: there is
//! at most one of each.

use outbox_core::{Marked, Marks};

use crate::world::World;

impl Marked for World {
    fn mark(&self, marks: &mut Marks) {
        self.db.mark(marks);
        self.broker.log.mark(marks);
        for (seq, seen) in &self.broker.seen {
            let earlier = self.checker.facts.get(seq).map_or(0, |fact| fact.earlier_deliveries);
            (seq, (seen.accepted > 0, seen.accepted > earlier)).mark(marks);
        }
        for operation in self.operations.values() {
            operation.mark(marks);
        }
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        for session in self.relays.iter().filter_map(|relay| relay.session.as_ref()) {
            session.core.mark_state(marks);
            session.mark(marks);
            session.mark_wal(&self.db.wal, confirmed, marks);
            session.connection.and_then(|number| self.broker.connections.get(&number)).mark(marks);
        }
    }
}
