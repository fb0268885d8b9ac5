//! Repairs the sequence of `seq`, if the database permits it.
//!
//! A pass reads the table in the order of `seq`, so an event needs a greater number than the earlier events of its key.
//! A database can refuse the repair, for example by an event trigger that freezes DDL; events are delivered anyway.

use outbox_core::Sequence;
use tokio_postgres::error::SqlState;
use tracing::warn;

use super::{Store, StoreError, sql};

/// The answer of `outbox.ensure_sequence()` if nothing had to be repaired.
const IN_ORDER: &str = "in order";

impl Store {
    /// Repairs the sequence, if that is needed and permitted, within two seconds at most.
    pub(crate) async fn ensure_sequence(&self) -> Result<Sequence, StoreError> {
        self.client.batch_execute(sql::BRIEFLY).await?;
        let done = self.client.query_one(&self.ensure_sequence, &[]).await;
        self.client.batch_execute(if done.is_ok() { sql::COMMIT } else { sql::ROLLBACK }).await?;
        match done.map_err(StoreError::from).and_then(|row| Ok(row.try_get::<_, String>(0)?)) {
            Ok(done) if done == IN_ORDER => Ok(Sequence::InOrder),
            Ok(done) => Ok(Sequence::Mended(done)),
            Err(error) if ends_session(&error) => Err(error),
            Err(error) => Ok(Sequence::Refused(error.refusal().unwrap_or_else(|| error.to_string()))),
        }
    }

    /// Repairs the sequence as [`ensure_sequence`](Self::ensure_sequence) does, during the startup, and logs the
    /// result.
    pub(crate) async fn ensure_sequence_at_start(&self) -> Result<(), StoreError> {
        match self.ensure_sequence().await? {
            Sequence::InOrder => {}
            Sequence::Mended(done) => mended(&done),
            Sequence::Refused(error) => refused(&error, 1),
        }
        Ok(())
    }
}

/// Whether the session must end: the connection or the server is going down, the server takes no writes, or the
/// statements do not fit the schema. Other errors, such as a damaged page, concern the sequence alone.
fn ends_session(error: &StoreError) -> bool {
    let StoreError::Sql(error) = error else { return true };
    let Some(state) = error.code().filter(|_| !error.is_closed()) else { return true };
    *state == SqlState::UNDEFINED_FUNCTION
        || matches!(state.code().get(..2), Some("08" | "25" | "26" | "3F"))
        || state.code().starts_with("57P")
}

pub(crate) fn mended(done: &str) {
    warn!(target: "relay", done, "the sequence of outbox.events.seq was not as it should be, and is mended: later events come later again");
}

pub(crate) fn refused(error: &str, times: u32) {
    let hint = "the relay tries again at each check_interval; if a right is missing: SELECT outbox.grant_relay(role); to do it by hand, as the owner of the outbox: SELECT outbox.ensure_sequence()";
    warn!(target: "relay", error, times, hint, "the sequence of outbox.events.seq could not be looked after: events are delivered, and a key's may leave in another order");
}
