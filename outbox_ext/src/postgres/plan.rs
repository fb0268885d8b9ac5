//! The INSERT of `emit` as a statement, by a plan that a backend makes once.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use pgrx::{Uuid, pg_sys};

use super::columns::EMITTED;
use super::emit_arguments::EmitArguments;
use super::table;

const INSERT: &CStr = c"INSERT INTO outbox.events (id, topic, payload, payload_bytes, content_type, event_type, \
    aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// Inserts one event as the table's owner; `false`: a trigger of the user's has left it out.
pub(crate) fn insert(id: &Uuid, arguments: &EmitArguments) -> bool {
    let values = arguments.values(id);
    let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
    // SPI's way to say null: 'n' for null, a blank for a value.
    let nulls = values.map(|value| if value.is_none() { b'n' } else { b' ' } as c_char);

    // SAFETY: the arrays have as many elements as the plan has parameters, of its types in its order. Raw SPI, because
    // pgrx's client allocates for every argument.
    unsafe {
        let caller = become_owner();
        check(pg_sys::SPI_connect());
        check(pg_sys::SPI_execute_plan(kept_plan(), datums.as_mut_ptr(), nulls.as_ptr(), false, 0));
        let inserted = pg_sys::SPI_processed;
        check(pg_sys::SPI_finish());
        caller.become_again();
        inserted == 1
    }
}

/// The caller's role and settings. After an error PostgreSQL itself goes back to them, as it does when a SECURITY
/// DEFINER function fails.
struct Caller {
    user: pg_sys::Oid,
    security: c_int,
    settings: c_int,
}

/// Does what SECURITY DEFINER and SET search_path do (`fmgr_security_definer`). Those would cost every call a third of
/// its time, and only a statement runs code of the user's.
unsafe fn become_owner() -> Caller {
    // SAFETY: the table is there, or an error is raised.
    unsafe {
        let events = pg_sys::try_table_open(table::look_up(), table::LOCK);
        if events.is_null() {
            table::raise_missing();
        }
        let owner = (*(*events).rd_rel).relowner;
        pg_sys::table_close(events, table::NO_LOCK);

        let mut caller = Caller { user: pg_sys::InvalidOid, security: 0, settings: 0 };
        pg_sys::GetUserIdAndSecContext(&raw mut caller.user, &raw mut caller.security);
        caller.settings = pg_sys::NewGUCNestLevel();
        pg_sys::SetUserIdAndSecContext(owner, caller.security | pg_sys::SECURITY_LOCAL_USERID_CHANGE as c_int);
        pg_sys::set_config_option(
            c"search_path".as_ptr(),
            c"pg_catalog, pg_temp".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
        caller
    }
}

impl Caller {
    unsafe fn become_again(self) {
        // SAFETY: undoes become_owner, in the opposite order.
        unsafe {
            pg_sys::AtEOXact_GUC(true, self.settings);
            pg_sys::SetUserIdAndSecContext(self.user, self.security);
        }
    }
}

/// The backend's plan. PostgreSQL makes it anew from its text when the table has changed.
fn kept_plan() -> pg_sys::SPIPlanPtr {
    thread_local! {
        static PLAN: Cell<pg_sys::SPIPlanPtr> = const { Cell::new(ptr::null_mut()) };
    }
    if PLAN.get().is_null() {
        let mut types = EMITTED.map(|(_, of)| of);
        // SAFETY: the arrays have these lengths, and `insert` has connected SPI. The plan is generic from the first
        // call on, because there is only one way to insert a row of parameters.
        unsafe {
            let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as c_int;
            let plan = pg_sys::SPI_prepare_cursor(INSERT.as_ptr(), EMITTED.len() as c_int, types.as_mut_ptr(), options);
            if plan.is_null() {
                check(pg_sys::SPI_result);
            }
            check(pg_sys::SPI_keepplan(plan));
            PLAN.set(plan);
        }
    }
    PLAN.get()
}

/// Raises an error of SPI's: a result below zero is one that it has not raised itself.
fn check(status: c_int) {
    if status < 0 {
        pgrx::error!("SPI failed in outbox.emit: {status}");
    }
}
