//! Inserts into `outbox.events` without a statement.
//!
//! An INSERT prepares to run at each call: it looks up its plan, copies the table's triggers, opens each index and prepares
//! its predicate, makes and frees the executor's memory. That is most of what a single-row INSERT costs. Here all of it is
//! kept from call to call, and made anew when PostgreSQL says that the table has changed. The row itself takes
//! the executor's own way, as one does that logical replication applies: triggers, constraints, the table, the indexes.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use pgrx::pg_sys;

use super::insert::Values;
use super::target::Ready;

/// As an INSERT locks its table and the indexes.
pub(super) const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    /// The table that [`KEPT`] is about.
    static TABLE: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// The table or a function has changed since it was made.
    static IS_STALE: Cell<bool> = const { Cell::new(true) };
    /// An error has left it half done.
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// What an INSERT would make anew.
struct Kept {
    /// `None`: the table has something that only a statement does justice to.
    ready: Option<Ready>,
}

/// Inserts one row, if the table allows it this way.
///
/// # Safety
/// The values are of the types of their columns.
pub(super) unsafe fn insert(values: &Values) -> bool {
    KEPT.with(|kept| {
        // Taken when a function in an index of the user's emits, too.
        let Ok(mut kept) = kept.try_borrow_mut() else { return false };
        // SAFETY: by this function's contract. What is kept is used under the table's lock and only if it is not stale then.
        unsafe {
            let table = open(&mut kept);
            let ready = kept.as_ref().and_then(|kept| kept.ready.as_ref());
            if let Some(ready) = ready {
                pg_sys::PreventCommandIfReadOnly(c"outbox.emit()".as_ptr());
                pg_sys::PreventCommandIfParallelMode(c"outbox.emit()".as_ptr());
                IS_BROKEN.set(true);
                ready.insert(table, values);
                IS_BROKEN.set(false); // and not IS_STALE: news of a change may have come meanwhile
            }
            let inserted = ready.is_some();
            pg_sys::table_close(table, NO_LOCK);
            inserted
        }
    })
}

/// Opens the table, with what is kept as fresh as the lock.
unsafe fn open(kept: &mut Option<Kept>) -> pg_sys::Relation {
    // SAFETY: a relation that is returned is open.
    unsafe {
        loop {
            let is_fresh = kept.is_some() && !IS_STALE.get() && !IS_BROKEN.get();
            if !is_fresh {
                TABLE.set(look_up());
            }
            let table = pg_sys::try_table_open(TABLE.get(), LOCK);
            // News of a change comes while the lock is waited for. The table may have another name then, or be gone.
            if is_fresh && !IS_STALE.get() && !table.is_null() {
                return table;
            }
            if look_up() == TABLE.get() {
                if table.is_null() {
                    pgrx::error!("the table outbox.events does not exist");
                }
                listen();
                if let Some(Kept { ready: Some(old) }) = kept.take() {
                    old.free();
                }
                IS_STALE.set(false);
                IS_BROKEN.set(false);
                *kept = Some(Kept { ready: Ready::new(table) });
                if !IS_STALE.get() {
                    return table;
                }
            }
            if !table.is_null() {
                pg_sys::table_close(table, NO_LOCK);
            }
        }
    }
}

unsafe fn look_up() -> pg_sys::Oid {
    // SAFETY: the names are static.
    unsafe { pg_sys::get_relname_relid(c"events".as_ptr(), pg_sys::get_namespace_oid(c"outbox".as_ptr(), false)) }
}

/// Has PostgreSQL tell of changes to the table and to functions, once in a backend.
fn listen() {
    #[pgrx::pg_guard]
    extern "C-unwind" fn table_changed(_nothing: pg_sys::Datum, relation: pg_sys::Oid) {
        if relation == TABLE.get() || relation == pg_sys::InvalidOid {
            IS_STALE.set(true);
        }
    }
    #[pgrx::pg_guard]
    extern "C-unwind" fn function_changed(_nothing: pg_sys::Datum, _cache: c_int, _hash: u32) {
        IS_STALE.set(true);
    }
    if !LISTENS.replace(true) {
        // SAFETY: the functions live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::CacheRegisterRelcacheCallback(Some(table_changed), pg_sys::Datum::null());
            let functions = pg_sys::SysCacheIdentifier::PROCOID as c_int;
            pg_sys::CacheRegisterSyscacheCallback(functions, Some(function_changed), pg_sys::Datum::null());
        }
    }
}
