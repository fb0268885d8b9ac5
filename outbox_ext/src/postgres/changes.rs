//! PostgreSQL's announcements of tables that have changed.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use pgrx::pg_sys;

/// What a listener is called with: the table's OID, or `InvalidOid` for every table.
type Listener = fn(pg_sys::Oid);

thread_local! {
    /// Never dropped, because PostgreSQL may call back while the process exits.
    static LISTENERS: RefCell<ManuallyDrop<Vec<Listener>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Calls the listener at each announcement from now on.
///
/// All listeners share one callback, because PostgreSQL has room for ten in a backend, those of other extensions
/// included.
pub(crate) fn on_table_change(listener: Listener) {
    #[pgrx::pg_guard]
    extern "C-unwind" fn table_changed(_nothing: pg_sys::Datum, table: pg_sys::Oid) {
        LISTENERS.with_borrow(|listeners| listeners.iter().for_each(|listener| listener(table)));
    }
    let is_first = LISTENERS.with_borrow_mut(|listeners| {
        listeners.push(listener);
        listeners.len() == 1
    });
    if is_first {
        // SAFETY: the function lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(table_changed), pg_sys::Datum::null()) }
    }
}
