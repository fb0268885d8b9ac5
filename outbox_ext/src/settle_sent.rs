//! `outbox.settle_sent()`: the verdict `SENT`, which nearly every event gets, past the cost of a statement.

use pgrx::prelude::*;
use pgrx::{Array, Uuid};

use crate::executor;
use crate::postgres::with_all_error_fields;
use crate::settings::NOTIFY_STATUS;

/// Writes `SENT` where that needs no statement, and returns the other events. `outbox.settle()` calls it after a check
/// of the caller's rights, and settles by a statement what is returned.
#[pg_extern(sql = false)]
pub(crate) fn settle_sent(ids: Array<Uuid>) -> Vec<Option<Uuid>> {
    // With outbox.notify_status a trigger has something to do for each verdict, and only a statement calls triggers.
    if NOTIFY_STATUS.get() || ids.contains_nulls() {
        return ids.iter().collect();
    }
    let ids = ids.iter().flatten().collect();
    with_all_error_fields(|| executor::settle_sent(ids)).into_iter().map(Some).collect()
}
