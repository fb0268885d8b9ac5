//! Settings that hold a text of the user's.
//!
//! A setting may hold hundreds of megabytes, which Rust must not copy: where its allocator fails the process aborts,
//! and PostgreSQL then ends every session. A setting may also hold bytes that are no text: PostgreSQL does not check
//! those of a startup packet.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::{pg_guard, pg_sys};

use super::raise::Report;

/// A setting that holds a text.
pub(crate) struct TextSetting(GucSetting<Option<CString>>);

/// The values that a setting may hold.
pub(crate) trait Check {
    /// The error for a value that the setting must not hold; `None` for any other.
    fn error_for(value: &[u8]) -> Option<Report>;
}

impl TextSetting {
    /// A setting without a value, which is not defined yet.
    pub(crate) const fn new() -> Self {
        Self(GucSetting::<Option<CString>>::new(None))
    }

    /// Defines the setting. PostgreSQL checks its values when they are set, once [`check_from_now_on`] was called.
    pub(crate) fn define<C: Check>(&'static self, name: &'static CStr, short: &'static CStr, long: &'static CStr) {
        let (context, flags) = (GucContext::Userset, GucFlags::default());
        // SAFETY: the function lives as long as the library, and is guarded.
        unsafe {
            let hook = Some(check::<C> as _);
            GucRegistry::define_string_guc_with_hooks(name, short, long, &self.0, context, flags, hook, None, None);
        }
    }

    /// Reads the value's bytes where they are; `None`: the setting is not set. An empty value counts as not set,
    /// because SET LOCAL leaves one behind.
    pub(crate) fn read<R>(&'static self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        // SAFETY: the setting is null or a C string, which stays until the setting is changed; reading it changes
        // nothing.
        let value = unsafe { bytes_of(*self.0.as_ptr()) };
        value.filter(|value| !value.is_empty()).map(read)
    }
}

/// Whether a setting that is not defined yet has a value, be it from the database, the role, or the session.
pub(crate) fn is_set(name: &CStr) -> bool {
    // SAFETY: the name is a C string; PostgreSQL returns null for a setting that nobody has named.
    let value = unsafe { pg_sys::GetConfigOption(name.as_ptr(), true, false) };
    !value.is_null()
}

thread_local! {
    static ARE_CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Begins to check settings when they are set.
///
/// A value that the session had set before they were defined was not checked, and stays: the next event gets the error.
/// If the check failed at once, PostgreSQL would drop the value with a warning, and events would go without it.
pub(crate) fn check_from_now_on() {
    ARE_CHECKED.set(true);
}

#[pg_guard]
unsafe extern "C-unwind" fn check<C: Check>(
    new: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the new value, null or a C string. The other is a variable of the backend: a parallel
    // worker takes over the values of its leader.
    let (value, is_taken_over) = unsafe { (bytes_of(*new), pg_sys::InitializingParallelWorker) };
    if !ARE_CHECKED.get() || is_taken_over {
        return true;
    }
    let error = value.filter(|value| !value.is_empty()).and_then(C::error_for);
    let Some((sqlstate, message, detail, hint)) = error else { return true };
    // SAFETY: PostgreSQL raises its error with these next, and copies them.
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
