//! What is made ready for the table once, and used until the table changes.
//!
//! A statement prepares to run at each call: it looks up its plan, copies the table's triggers, opens each index and
//! prepares its predicate, makes and frees the executor's memory. That is most of what a single-row INSERT costs. Here all of
//! it is kept from call to call, and created again when PostgreSQL says that the table, one of its indexes or a function has
//! changed.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::thread::LocalKey;

use pgrx::pg_sys;

use super::raise::raise_missing_table;

/// The lock that a statement which writes takes on its table and the indexes.
pub(super) const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
pub(super) const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// How often the table is made ready again while news of changes keeps coming.
const MOST_ROUNDS: u32 = 10;

thread_local! {
    /// The table whose changes count.
    static TABLE: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// How often the table or a function has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// How often any table has changed.
    static CHANGES_OF_TABLES: Cell<u64> = const { Cell::new(0) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// What a statement would make at each call.
pub(super) trait Ready: Sized {
    /// Gives the memory back, without a look at what is in it: an error may have left it half done.
    ///
    /// # Safety
    /// Nothing refers to it any longer.
    unsafe fn free(self);
}

/// At most one of a kind in a backend.
pub(super) struct Kept<T> {
    made: Option<Made<T>>,
    /// An error has left it half done.
    is_broken: Cell<bool>,
}

struct Made<T> {
    table: pg_sys::Oid,
    /// [`CHANGES`] as it was then.
    changes: u64,
    ready: Option<T>,
}

/// Does the work, if the table allows it this way; `None` if not. An error leaves nothing of the work behind but what the
/// transaction takes back.
///
/// `make` makes the table ready; its `None` says that the table has something that only a statement does justice to.
///
/// # Safety
/// `make` needs nothing but a table that is open and locked; `work` needs one that is also as it was made ready for.
pub(super) unsafe fn with_ready<T: Ready, R>(
    kept: &'static LocalKey<RefCell<Kept<T>>>,
    make: impl Fn(pg_sys::Relation) -> Option<T>,
    work: impl FnOnce(&T, pg_sys::Relation) -> R,
) -> Option<R> {
    kept.with(|kept| {
        // It is borrowed already when a function of the user's, in an index, does the same.
        let mut kept = kept.try_borrow_mut().ok()?;
        // SAFETY: what is kept is used under the table's lock and only if it is fresh then.
        unsafe {
            let table = kept.open(make);
            let ready = kept.made.as_ref().and_then(|made| made.ready.as_ref());
            let done = ready.map(|ready| {
                kept.is_broken.set(true);
                let done = work(ready, table);
                kept.is_broken.set(false);
                done
            });
            pg_sys::table_close(table, NO_LOCK);
            done
        }
    })
}

impl<T: Ready> Kept<T> {
    pub(super) const fn nothing() -> Self {
        Self { made: None, is_broken: Cell::new(false) }
    }

    /// Opens the table. What is kept is fresh then, under the table's lock; nothing is kept if it will not stay fresh.
    unsafe fn open(&mut self, make: impl Fn(pg_sys::Relation) -> Option<T>) -> pg_sys::Relation {
        // SAFETY: a relation that is returned is open.
        unsafe {
            let mut rounds = 0;
            loop {
                pgrx::check_for_interrupts!();
                // Where the transaction has the locks already, nothing else asks for news.
                pg_sys::AcceptInvalidationMessages();
                let is_fresh = self.is_fresh();
                if !is_fresh {
                    TABLE.set(look_up());
                }
                let table = pg_sys::try_table_open(TABLE.get(), LOCK);
                // News of changes comes in during the wait for the lock: the table may have another name then, or be gone.
                if is_fresh && self.is_fresh() && !table.is_null() {
                    return table;
                }
                if look_up() == TABLE.get() {
                    if table.is_null() {
                        raise_missing_table();
                    }
                    self.renew(|| make(table));
                    if self.is_fresh() {
                        return table;
                    }
                    // Or debug_discard_caches is on, which makes news of everything.
                    rounds += 1;
                    if rounds == MOST_ROUNDS {
                        self.forget();
                        return table;
                    }
                }
                if !table.is_null() {
                    pg_sys::table_close(table, NO_LOCK);
                }
            }
        }
    }

    unsafe fn forget(&mut self) {
        if let Some(ready) = self.made.take().and_then(|made| made.ready) {
            // SAFETY: nobody uses it: self is borrowed exclusively.
            unsafe { ready.free() }
        }
    }

    unsafe fn renew(&mut self, make: impl FnOnce() -> Option<T>) {
        listen();
        // SAFETY: nobody uses what was kept: self is borrowed exclusively.
        unsafe { self.forget() };
        self.is_broken.set(false);
        let changes = CHANGES.get(); // before the work of making, which can bring news of changes
        self.made = Some(Made { table: TABLE.get(), changes, ready: make() });
    }

    fn is_fresh(&self) -> bool {
        let is_of_now = |made: &Made<T>| made.table == TABLE.get() && made.changes == CHANGES.get();
        self.made.as_ref().is_some_and(is_of_now) && !self.is_broken.get()
    }
}

/// The table that has the name now; `InvalidOid` if none has.
pub(super) unsafe fn look_up() -> pg_sys::Oid {
    // SAFETY: the names are static.
    unsafe { pg_sys::get_relname_relid(c"events".as_ptr(), pg_sys::get_namespace_oid(c"outbox".as_ptr(), false)) }
}

/// How often a table, whichever, has changed since [`listen`].
pub(super) fn changes_of_tables() -> u64 {
    CHANGES_OF_TABLES.get()
}

/// Asks PostgreSQL to tell of changes to tables and to functions, once in a backend.
pub(super) fn listen() {
    #[pgrx::pg_guard]
    extern "C-unwind" fn table_changed(_nothing: pg_sys::Datum, relation: pg_sys::Oid) {
        CHANGES_OF_TABLES.set(CHANGES_OF_TABLES.get() + 1);
        if relation == TABLE.get() || relation == pg_sys::InvalidOid {
            CHANGES.set(CHANGES.get() + 1);
        }
    }
    #[pgrx::pg_guard]
    extern "C-unwind" fn function_changed(_nothing: pg_sys::Datum, _cache: c_int, _hash: u32) {
        CHANGES.set(CHANGES.get() + 1);
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
