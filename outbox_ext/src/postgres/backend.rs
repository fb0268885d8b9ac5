//! The backend itself: the time of its transaction, its role in replication, randomness, its environment.

use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

/// A function of this library as PostgreSQL calls it.
pub(crate) type SqlFunction = unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum;

/// When the transaction began, in microseconds since 2000, as SQL's `now()`.
pub(crate) fn transaction_time() -> i64 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetCurrentTransactionStartTimestamp() }
}

/// Whether new rows were checked on another server: logical replication applies them, or the session says so by
/// `session_replication_role`.
pub(crate) fn is_replica() -> bool {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as c_int }
}

/// Stops Rust from taking backtraces in this library. Where the server's environment asks for them, pgrx would put one,
/// with the paths of the build, into the DETAIL of each error.
#[allow(clippy::disallowed_methods)] // a backend has one thread, and nothing reads the variable before it is back
pub(crate) fn take_no_backtraces() {
    const ASKS: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(ASKS);
    // SAFETY: a backend has one thread.
    unsafe { std::env::set_var(ASKS, "0") };
    drop(std::backtrace::Backtrace::capture()); // Rust reads the variable at the first one, and never again
    // SAFETY: as above.
    unsafe {
        match before {
            Some(before) => std::env::set_var(ASKS, before),
            None => std::env::remove_var(ASKS),
        }
    }
}

/// Fills `bytes` from PostgreSQL's strong random source.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    // SAFETY: the pointer and the length are those of one slice.
    if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) } {
        pgrx::error!("could not generate random values");
    }
}

/// Makes PostgreSQL reject settings under `prefix` that are not defined, so that a misspelt name does not go unnoticed.
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
