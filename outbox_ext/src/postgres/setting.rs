//! Settings that hold text of the user's.
//!
//! A setting may hold hundreds of megabytes, which Rust must not copy: where its allocator fails the process aborts, and
//! PostgreSQL then ends every session. A setting may also hold any bytes: PostgreSQL does not check those of a startup packet.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::{pg_guard, pg_sys};

use super::raise::Report;

/// A setting of text.
pub(crate) type Setting = GucSetting<Option<CString>>;

thread_local! {
    static ARE_CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Looks at the bytes of a setting where they are. `None`: it is not set. Empty counts as not set, because SET LOCAL leaves
/// an empty text behind.
pub(crate) fn read<R>(setting: &'static Setting, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: the setting is null or a C string, which stays until the setting is changed; looking at it does not.
    let value = unsafe { bytes_of(*setting.as_ptr()) };
    value.filter(|value| !value.is_empty()).map(look)
}

/// Whether the session has a value for a setting that is not defined yet, be it from the database, the role, or itself.
pub(crate) fn is_given(name: &CStr) -> bool {
    // SAFETY: the name is a C string; PostgreSQL returns null for a setting that nobody has named.
    let value = unsafe { pg_sys::GetConfigOption(name.as_ptr(), true, false) };
    !value.is_null()
}

/// What a setting may hold.
pub(crate) trait Check {
    /// The error for a value that is refused.
    fn refuses(value: &[u8]) -> Option<Report>;
}

/// Defines a setting that is checked when it is set, once [`check_from_now_on`] was called.
pub(crate) fn define_checked<C: Check>(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static Setting,
) {
    let (context, flags) = (GucContext::Userset, GucFlags::default());
    // SAFETY: the function lives as long as the library, and is guarded.
    unsafe {
        let hook = Some(check::<C> as _);
        GucRegistry::define_string_guc_with_hooks(name, short, long, setting, context, flags, hook, None, None);
    }
}

/// Begins to check settings when they are set.
///
/// A value that the session had set before they were defined was not checked, and stays: the event that it does not fit is
/// refused. PostgreSQL would drop the value with a warning, and the event would go without.
pub(crate) fn check_from_now_on() {
    ARE_CHECKED.set(true);
}

#[pg_guard]
unsafe extern "C-unwind" fn check<C: Check>(
    new: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the new value, null or a C string. The other is a variable of the backend: a parallel worker
    // takes over what its leader has.
    let (value, is_taken_over) = unsafe { (bytes_of(*new), pg_sys::InitializingParallelWorker) };
    if !ARE_CHECKED.get() || is_taken_over {
        return true;
    }
    let refusal = value.filter(|value| !value.is_empty()).and_then(C::refuses);
    let Some((sqlstate, message, detail, hint)) = refusal else { return true };
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
