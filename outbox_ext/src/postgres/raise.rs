//! Errors as PostgreSQL raises them.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;

/// SQLSTATE, message, detail and hint of an error.
pub(crate) type Report = (PgSqlErrorCode, String, Option<String>, Option<&'static str>);

/// Ends the statement with an error.
pub(crate) fn raise((sqlstate, message, detail, hint): Report) -> ! {
    let mut report = ErrorReport::new(sqlstate, message, "outbox");
    if let Some(detail) = detail {
        report = report.set_detail(detail);
    }
    if let Some(hint) = hint {
        report = report.set_hint(hint);
    }
    report.report(pgrx::PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}
