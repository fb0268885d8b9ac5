//! The sequence of `seq`: mended, or done without.
//!
//! A pass reads the table in the order of `seq`, so an event needs a greater number than the earlier ones of its key. A database can refuse
//! to have the sequence mended, as by an event trigger that freezes DDL. Events leave all the same.

use outbox_core::Sequence;
use tracing::warn;

use super::{Store, StoreError};

/// What `outbox.ensure_sequence()` returns if there was nothing to mend.
const IN_ORDER: &str = "in order";

impl Store {
    /// Mends the sequence, if that is needed and permitted.
    pub(crate) async fn ensure_sequence(&self) -> Result<Sequence, StoreError> {
        let done = self.client.query_one(&self.ensure_sequence, &[]).await;
        match done.map_err(StoreError::from).and_then(|row| Ok(row.try_get::<_, String>(0)?)) {
            Ok(done) if done == IN_ORDER => Ok(Sequence::InOrder),
            Ok(done) => Ok(Sequence::Mended(done)),
            Err(error) => error.refusal().map(Sequence::Refused).ok_or(error),
        }
    }

    /// The same at a start. A lock of somebody else's keeps no session from its start: the next check looks again.
    pub(crate) async fn ensure_sequence_at_start(&self) -> Result<(), StoreError> {
        match self.ensure_sequence().await {
            Ok(Sequence::InOrder) => {}
            Ok(Sequence::Mended(done)) => mended(&done),
            Ok(Sequence::Refused(error)) => refused(&error, 1),
            Err(error) if error.may_pass() => refused(&error.to_string(), 1),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

pub(crate) fn mended(done: &str) {
    warn!(target: "relay", done, "the sequence of outbox.events.seq was not as it should be, and is mended: later events come later again");
}

pub(crate) fn refused(error: &str, times: u32) {
    let hint = "let it run once as the owner of the outbox: SELECT outbox.ensure_sequence(); if a right is missing: SELECT outbox.grant_relay(role)";
    warn!(target: "relay", error, times, hint, "the sequence of outbox.events.seq could not be looked after: events are delivered, and a key's may leave in another order");
}
