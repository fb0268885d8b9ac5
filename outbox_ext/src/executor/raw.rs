//! Functions of PostgreSQL as they are in C.
//!
//! pgrx puts a boundary around each call, which turns an ERROR into a panic. An event needs a dozen of these calls, and
//! one boundary around all of them does as well.
//!
//! # Safety
//!
//! The caller calls them within `pg_guard_ffi_boundary`. An ERROR jumps over the Rust code between the calls, so
//! nothing there may need to be dropped.

use std::ffi::c_char;

use pgrx::pg_sys::{EState, LOCKMODE, MemoryContext, Oid, Relation, ResultRelInfo, TupleTableSlot};

unsafe extern "C-unwind" {
    pub(super) fn CommandCounterIncrement();
    pub(super) fn ExecSimpleRelationInsert(info: *mut ResultRelInfo, estate: *mut EState, slot: *mut TupleTableSlot);
    pub(super) fn ExecStoreVirtualTuple(slot: *mut TupleTableSlot) -> *mut TupleTableSlot;
    pub(super) fn MemoryContextReset(context: MemoryContext);
    pub(super) fn PreventCommandIfParallelMode(command: *const c_char);
    pub(super) fn PreventCommandIfReadOnly(command: *const c_char);
    pub(super) fn index_close(index: Relation, mode: LOCKMODE);
    pub(super) fn index_open(index: Oid, mode: LOCKMODE) -> Relation;
}

/// `ExecClearTuple`, which is inline in C.
pub(super) unsafe fn clear(slot: *mut TupleTableSlot) {
    // SAFETY: every kind of slot has this function.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}
