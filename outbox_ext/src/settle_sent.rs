//! `outbox.settle_sent()`: the verdict that nearly every event gets, past the cost of a statement.

use pgrx::prelude::*;
use pgrx::{Array, Uuid};

use crate::postgres;
use crate::settings::NOTIFY_STATUS;

/// Writes `SENT` where that is simple, and returns the other events, for `outbox.settle()` to deal with, whose part this is: it
/// is the one that checks the caller's rights.
#[pg_extern(volatile)]
pub(crate) fn settle_sent(ids: Array<Uuid>) -> Vec<Option<Uuid>> {
    // A notification is a trigger's work.
    if NOTIFY_STATUS.get() || ids.contains_nulls() {
        return ids.iter().collect();
    }
    let ids = ids.iter().flatten().collect();
    postgres::with_all_error_fields(|| postgres::settle_sent(ids)).into_iter().map(Some).collect()
}
