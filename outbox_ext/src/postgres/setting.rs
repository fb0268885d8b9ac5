//! Settings that hold text of the user's.
//!
//! A setting may hold hundreds of megabytes, which Rust must not copy: where its allocator fails the process aborts, and
//! PostgreSQL then ends every session. And it may hold any bytes: PostgreSQL does not look at those of a startup packet.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::{pg_guard, pg_sys};

use crate::refusal::Refusal;
use crate::settings;

/// A setting of text.
pub(crate) type Setting = GucSetting<Option<CString>>;

thread_local! {
    static ARE_DEFINED: Cell<bool> = const { Cell::new(false) };
}

/// Looks at the bytes of a setting where they are. `None`: it has none; empty counts as not set, for that is what SET LOCAL
/// leaves behind.
pub(crate) fn read<R>(setting: &'static Setting, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: the setting is null or a C string, which stays until the setting is changed; looking at it does not.
    let value = unsafe { bytes_of(*setting.as_ptr()) };
    value.filter(|value| !value.is_empty()).map(look)
}

/// Defines the settings that are checked when they are set.
///
/// What a session had set before was not checked, and stays: the event that it does not fit is refused. PostgreSQL would
/// drop it with a warning, and the event would go without.
pub(crate) fn define_checked() {
    // SAFETY: the functions live as long as the library, and are guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"outbox.correlation_id",
            c"The correlation_id of events emitted without one.",
            c"Meant for SET LOCAL, at the start of a request's transaction.",
            &settings::CORRELATION_ID,
            GucContext::Userset,
            GucFlags::default(),
            Some(check_correlation_id),
            None,
            None,
        );
        GucRegistry::define_string_guc_with_hooks(
            c"outbox.traceparent",
            c"The header traceparent of events emitted without one.",
            c"Meant for SET LOCAL, at the start of a request's transaction. W3C Trace Context.",
            &settings::TRACEPARENT,
            GucContext::Userset,
            GucFlags::default(),
            Some(check_traceparent),
            None,
            None,
        );
    }
    ARE_DEFINED.set(true);
}

#[pg_guard]
unsafe extern "C-unwind" fn check_correlation_id(
    new: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the new value.
    unsafe { is_admitted(*new, |value| settings::check_correlation_id(value).err()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn check_traceparent(
    new: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the new value.
    unsafe { is_admitted(*new, |value| settings::check_traceparent(value).err()) }
}

/// # Safety
/// The value is null or a C string.
unsafe fn is_admitted(new: *const c_char, check: impl FnOnce(&[u8]) -> Option<Refusal>) -> bool {
    // SAFETY: by this function's contract; the other is a variable of the backend. A worker takes over what its leader has.
    let (value, is_taken_over) = unsafe { (bytes_of(new), pg_sys::InitializingParallelWorker) };
    if !ARE_DEFINED.get() || is_taken_over {
        return true;
    }
    let refusal = value.filter(|value| !value.is_empty()).and_then(check);
    let Some((sqlstate, message, detail, hint)) = refusal.map(Refusal::report) else { return true };
    // SAFETY: PostgreSQL takes these for its error, which it raises next, and copies them.
    unsafe {
        pg_sys::GUC_check_errcode(sqlstate as i32);
        pg_sys::GUC_check_errmsg_string = copied(&message);
        pg_sys::GUC_check_errdetail_string = detail.map_or(std::ptr::null_mut(), |detail| copied(&detail));
        pg_sys::GUC_check_errhint_string = hint.map_or(std::ptr::null_mut(), copied);
    }
    false
}

/// # Safety
/// The text is null or a C string, which stays as long as `'a`.
unsafe fn bytes_of<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: by this function's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A C string in PostgreSQL's memory.
fn copied(text: &str) -> *mut c_char {
    // SAFETY: the pointer and the length are those of one text.
    unsafe { pg_sys::pnstrdup(text.as_ptr().cast(), text.len()) }
}
