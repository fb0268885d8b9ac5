//! The table `outbox.events`: its OID, its lock, and the error that reports its absence.

use pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE;
use pgrx::pg_sys;

use super::raise::raise;

/// The lock that a statement which writes takes on its table and the indexes.
pub(crate) const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;

/// No lock: to open what is locked already, or to keep a lock until the transaction ends.
pub(crate) const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// The table that has the name now; `InvalidOid` if none has.
pub(crate) fn look_up() -> pg_sys::Oid {
    // SAFETY: the names are static C strings.
    unsafe { pg_sys::get_relname_relid(c"events".as_ptr(), pg_sys::get_namespace_oid(c"outbox".as_ptr(), false)) }
}

/// Ends the statement: no table has the name.
pub(crate) fn raise_missing() -> ! {
    let hint = "It was renamed or moved: give it back its name, or its schema.";
    raise((ERRCODE_UNDEFINED_TABLE, "relation \"outbox.events\" does not exist".into(), None, Some(hint)))
}
