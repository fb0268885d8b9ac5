//! What is made ready for the table once, and kept until the table changes.
//!
//! A statement makes all of it ready at each call: it looks up its plan, copies the table's triggers, opens each index
//! and prepares its predicate, makes and frees the executor's memory. Here it is made anew when PostgreSQL announces a
//! change to the table, one of its indexes, or a function.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::thread::LocalKey;

use pgrx::pg_sys;

use crate::postgres::changes::on_table_change;
use crate::postgres::table::{self, LOCK, NO_LOCK};

/// How often the table is made ready again while PostgreSQL goes on announcing changes.
const MOST_ROUNDS: u32 = 10;

thread_local! {
    /// The table whose changes count.
    static TABLE: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// How often [`TABLE`] or a function has changed since the first look at this count.
    static CHANGES: Cell<u64> = {
        listen();
        Cell::new(0)
    };
}

/// What a statement would make ready at each call.
pub(super) trait Ready: Sized {
    /// Frees the memory without reading it, because an error may have left it half done.
    ///
    /// # Safety
    /// Nothing refers to the memory any longer.
    unsafe fn free(self);
}

/// What a backend keeps for one kind of write.
pub(super) struct Kept<T> {
    made: Option<Made<T>>,
    /// Whether an error has left it half done.
    is_broken: Cell<bool>,
}

struct Made<T> {
    table: pg_sys::Oid,
    /// [`CHANGES`] before it was made.
    changes: u64,
    /// `None`: the table has something that needs a statement.
    ready: Option<T>,
}

/// Does the work; `None`: the table has something that needs a statement, as `make` says by its own `None`. The
/// transaction takes back whatever an error leaves behind.
///
/// # Safety
/// `make` needs only a table that is open and locked. `work` needs a table that is also unchanged since `make`.
pub(super) unsafe fn with_ready<T: Ready, R>(
    kept: &'static LocalKey<RefCell<Kept<T>>>,
    make: impl Fn(pg_sys::Relation) -> Option<T>,
    work: impl FnOnce(&T, pg_sys::Relation) -> R,
) -> Option<R> {
    kept.with(|kept| {
        // It is borrowed already when a function of the user's, in an index, writes this way, too.
        let mut kept = kept.try_borrow_mut().ok()?;
        // SAFETY: what is kept is used under the table's lock, and only if it is fresh then.
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

    /// Opens and locks the table. Then what is kept is fresh, or nothing is kept.
    unsafe fn open(&mut self, make: impl Fn(pg_sys::Relation) -> Option<T>) -> pg_sys::Relation {
        // SAFETY: a relation that is returned is open.
        unsafe {
            let mut rounds = 0;
            loop {
                pgrx::check_for_interrupts!();
                // Where the transaction has the locks already, nothing else reads the announcements.
                pg_sys::AcceptInvalidationMessages();
                let is_fresh = self.is_fresh();
                if !is_fresh {
                    TABLE.set(table::look_up());
                }
                let opened = pg_sys::try_table_open(TABLE.get(), LOCK);
                // Announcements arrive during the wait for the lock: the table may have another name now, or be gone.
                if is_fresh && self.is_fresh() && !opened.is_null() {
                    return opened;
                }
                if table::look_up() == TABLE.get() {
                    if opened.is_null() {
                        table::raise_missing();
                    }
                    self.renew(|| make(opened));
                    if self.is_fresh() {
                        return opened;
                    }
                    // Under debug_discard_caches announcements never end.
                    rounds += 1;
                    if rounds == MOST_ROUNDS {
                        self.forget();
                        return opened;
                    }
                }
                if !opened.is_null() {
                    pg_sys::table_close(opened, NO_LOCK);
                }
            }
        }
    }

    unsafe fn forget(&mut self) {
        if let Some(ready) = self.made.take().and_then(|made| made.ready) {
            // SAFETY: nothing uses it, because self is borrowed exclusively.
            unsafe { ready.free() }
        }
    }

    unsafe fn renew(&mut self, make: impl FnOnce() -> Option<T>) {
        // SAFETY: nothing uses what was kept, because self is borrowed exclusively.
        unsafe { self.forget() };
        self.is_broken.set(false);
        let changes = CHANGES.get(); // before make(), during which announcements can arrive
        self.made = Some(Made { table: TABLE.get(), changes, ready: make() });
    }

    fn is_fresh(&self) -> bool {
        let is_current = |made: &Made<T>| made.table == TABLE.get() && made.changes == CHANGES.get();
        self.made.as_ref().is_some_and(is_current) && !self.is_broken.get()
    }
}

/// Counts PostgreSQL's announcements of changes, in [`CHANGES`].
fn listen() {
    fn table_changed(table: pg_sys::Oid) {
        if table == TABLE.get() || table == pg_sys::InvalidOid {
            CHANGES.set(CHANGES.get() + 1);
        }
    }
    #[pgrx::pg_guard]
    extern "C-unwind" fn function_changed(_nothing: pg_sys::Datum, _cache: c_int, _hash: u32) {
        CHANGES.set(CHANGES.get() + 1);
    }
    on_table_change(table_changed);
    let functions = pg_sys::SysCacheIdentifier::PROCOID as c_int;
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { pg_sys::CacheRegisterSyscacheCallback(functions, Some(function_changed), pg_sys::Datum::null()) }
}
