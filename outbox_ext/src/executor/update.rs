//! Writes a row's next version into the table and its indexes, in the way of each version of PostgreSQL.

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::target::Target;

/// Replaces the row at `ctid` by `next`, as `ExecSimpleRelationUpdate` does apart from triggers; `false`: the row was
/// changed after the snapshot. It waits for a transaction that has locked the row.
///
/// # Safety The target is open for the table, the row at `ctid` is visible to the snapshot, and `next` has a value for
/// each column.
pub(super) unsafe fn update(
    target: &Target,
    table: pg_sys::Relation,
    ctid: pg_sys::ItemPointer,
    next: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: by this function's contract. The boundary turns an ERROR into a panic.
    unsafe {
        if !(*(*table).rd_att).constr.is_null() {
            pg_sys::ExecConstraints(target.info, next, target.estate);
        }
        let Some(update) = (*(*table).rd_tableam).tuple_update else { return false };
        let command = pg_sys::GetCurrentCommandId(true);
        let (no_crosscheck, waits) = (std::ptr::null_mut(), true);
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
        let mut which = WhichIndexes::default();
        let result = pg_guard_ffi_boundary(|| {
            update(
                table,
                ctid,
                next,
                command,
                snapshot,
                no_crosscheck,
                waits,
                &raw mut failure,
                &raw mut lock_mode,
                &raw mut which,
            )
        });
        let is_written = result == pg_sys::TM_Result::TM_Ok;
        if is_written {
            insert_into_indexes(target, next, which);
        }
        is_written
    }
}

/// Which indexes need the new version, as `tuple_update` reports.
#[cfg(any(feature = "pg14", feature = "pg15"))]
type WhichIndexes = bool;
#[cfg(not(any(feature = "pg14", feature = "pg15")))]
type WhichIndexes = pg_sys::TU_UpdateIndexes::Type;

unsafe fn insert_into_indexes(target: &Target, slot: *mut pg_sys::TupleTableSlot, which: WhichIndexes) {
    let (is_update, no_dup_err) = (true, false);
    let (no_conflict, no_arbiters) = (std::ptr::null_mut(), std::ptr::null_mut());
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    if which {
        // SAFETY: the indexes are open, and the slot has the row that is in the table now.
        unsafe {
            pg_sys::ExecInsertIndexTuples(
                target.info,
                slot,
                target.estate,
                is_update,
                no_dup_err,
                no_conflict,
                no_arbiters,
            );
        }
    }
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    if which != pg_sys::TU_UpdateIndexes::TU_None {
        let only_summarizing = which == pg_sys::TU_UpdateIndexes::TU_Summarizing;
        // SAFETY: as above.
        unsafe {
            pg_sys::ExecInsertIndexTuples(
                target.info,
                slot,
                target.estate,
                is_update,
                no_dup_err,
                no_conflict,
                no_arbiters,
                only_summarizing,
            );
        }
    }
}

/// Begins a scan of an index on one column.
///
/// # Safety
/// The table and the index are open and locked.
pub(super) unsafe fn begin_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
) -> pg_sys::IndexScanDesc {
    // SAFETY: by this function's contract.
    #[cfg(not(feature = "pg18"))]
    unsafe {
        pg_sys::index_beginscan(table, index, snapshot, 1, 0)
    }
    // SAFETY: as above.
    #[cfg(feature = "pg18")]
    unsafe {
        pg_sys::index_beginscan(table, index, snapshot, std::ptr::null_mut(), 1, 0)
    }
}
