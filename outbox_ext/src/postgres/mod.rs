//! PostgreSQL's own data, behind safe types. All unsafe code of the extension is in this folder.
//!
//! # Safety
//!
//! What the types here hold are datums: values or pointers into memory that PostgreSQL owns. They are sound for these
//! reasons, on which every `unsafe` block relies:
//! - A backend has one thread, and none of the types is `Send`.
//! - The types are made for one function call, from its arguments or from the row of its trigger, and none outlives it:
//!   PostgreSQL keeps both until the call returns, and what is allocated on the way (`palloc`) in the call's memory
//!   context, which lives as long.
//! - PostgreSQL has checked the types: an argument or a column declared `jsonb` is a jsonb varlena.
//!
//! pgrx wraps each C function: an ERROR raised in it becomes a Rust panic, which unwinds to the function's guard.

mod arguments;
mod bytes;
mod column;
mod default_value;
mod direct_insert;
mod direct_settle;
mod error_fields;
mod index_code;
mod insert;
mod jsonb;
mod kept;
mod passing_triggers;
mod plan;
mod positions;
mod raise;
mod raw_size;
mod row;
mod setting;
mod target;
mod update;

use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

pub(crate) use arguments::{BytesValue, JsonbValue, TextValue, TimeValue};
pub(crate) use column::Column;
pub(crate) use direct_settle::settle_sent;
pub(crate) use error_fields::with_all_error_fields;
pub(crate) use insert::{Given, InsertedRows, insert_event};
pub(crate) use jsonb::Jsonb;
pub(crate) use raise::{raise_corrupt_jsonb, raise_out_of_memory};
pub(crate) use row::NewRow;
pub(crate) use setting::{Setting, define_checked as define_checked_settings, read as read_setting};

/// When the transaction began, in microseconds since 2000: what SQL's `now()` says.
pub(crate) fn transaction_time() -> i64 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetCurrentTransactionStartTimestamp() }
}

/// Whether what comes was checked where it comes from: logical replication applies it, or a session that says so.
pub(crate) fn is_replica() -> bool {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as c_int }
}

/// Has Rust take no backtraces here. Where the server's environment asks for them, pgrx puts one, build paths and all, into the
/// DETAIL of each error.
#[allow(clippy::disallowed_methods)] // a backend has one thread, and the variable is back before anybody else looks
pub(crate) fn take_no_backtraces() {
    const ASKS: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(ASKS);
    // SAFETY: a backend has one thread.
    unsafe { std::env::set_var(ASKS, "0") };
    drop(std::backtrace::Backtrace::capture()); // the first one asks, for this library and for all later ones
    // SAFETY: as above.
    unsafe {
        match before {
            Some(before) => std::env::set_var(ASKS, before),
            None => std::env::remove_var(ASKS),
        }
    }
}

/// Ends the statement if it was cancelled or ran out of its time. For loops that may be long.
#[inline]
pub(crate) fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}

/// Fills `bytes` from PostgreSQL's strong random source.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    // SAFETY: the pointer and the length are those of one slice.
    if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) } {
        pgrx::error!("could not generate random values");
    }
}

/// Has PostgreSQL refuse settings under `prefix` that are not defined: a misspelt name is no silent no-op.
pub(crate) fn reserve_prefix(prefix: &'static CStr) {
    // SAFETY: the text is static.
    #[cfg(not(feature = "pg14"))]
    unsafe {
        pg_sys::MarkGUCPrefixReserved(prefix.as_ptr());
    }
    // SAFETY: the text is static.
    #[cfg(feature = "pg14")]
    unsafe {
        pg_sys::EmitWarningsOnPlaceholders(prefix.as_ptr());
    }
}
