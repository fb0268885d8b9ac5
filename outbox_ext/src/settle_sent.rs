//! `outbox.settle_sent()`: the verdict that nearly every event gets, past the cost of a statement.

use pgrx::prelude::*;
use pgrx::{Array, Uuid};

use crate::postgres;
use crate::settings::{NOTIFY_STATUS, writes_directly};

/// Writes `SENT` where that is simple, and returns the other events. A part of `outbox.settle()`, which checks the caller's
/// rights first and deals with the events that are returned.
#[pg_extern(sql = false)]
pub(crate) fn settle_sent(ids: Array<Uuid>) -> Vec<Option<Uuid>> {
    // A trigger notifies, and a statement calls it.
    if !writes_directly() || NOTIFY_STATUS.get() || ids.contains_nulls() {
        return ids.iter().collect();
    }
    let ids = ids.iter().flatten().collect();
    postgres::with_all_error_fields(|| postgres::settle_sent(ids)).into_iter().map(Some).collect()
}
