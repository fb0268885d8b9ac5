//! `outbox.settle_sent()`: the verdict that nearly every event gets, past the cost of a statement.

use pgrx::prelude::*;
use pgrx::{Array, Uuid};

use crate::postgres;
use crate::settings::NOTIFY_STATUS;

/// Writes `SENT` to those of the events that are `PENDING`, hold no key and are nobody else's just now. Returns the others, for
/// `outbox.settle()` to deal with, whose part this is: it is the one that checks the caller's rights.
#[pg_extern(volatile)]
pub(crate) fn settle_sent(ids: Array<Uuid>) -> Vec<Option<Uuid>> {
    // A notification is a trigger's work.
    if NOTIFY_STATUS.get() || ids.contains_nulls() {
        return ids.iter().collect();
    }
    postgres::settle_sent(ids.iter().flatten().collect()).into_iter().map(Some).collect()
}
