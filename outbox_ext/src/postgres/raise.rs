//! Errors that are not about an event's form.

use pgrx::PgSqlErrorCode::{self, *};
use pgrx::pg_sys::panic::ErrorReport;

/// Ends the statement with an error.
pub(super) fn raise(sqlstate: PgSqlErrorCode, message: impl Into<String>, hint: Option<&'static str>) -> ! {
    let mut report = ErrorReport::new(sqlstate, message.into(), "outbox");
    if let Some(hint) = hint {
        report = report.set_hint(hint);
    }
    report.report(pgrx::PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// The table is not where it was made.
pub(super) fn raise_missing_table() -> ! {
    let hint = "It was renamed or moved: give it back its name, or its schema.";
    raise(ERRCODE_UNDEFINED_TABLE, "relation \"outbox.events\" does not exist", Some(hint))
}

/// A value is not what its type promises.
#[cold]
pub(crate) fn raise_corrupt_jsonb() -> ! {
    let hint = "Look for damage in the table that it comes from: amcheck, checksums, memory.";
    raise(ERRCODE_DATA_CORRUPTED, "a jsonb value is not stored as jsonb", Some(hint))
}

/// Rust's allocator has no memory.
#[cold]
pub(crate) fn raise_out_of_memory() -> ! {
    raise(ERRCODE_OUT_OF_MEMORY, "out of memory", Some("The value is nested very deeply: emit a flatter one."))
}
