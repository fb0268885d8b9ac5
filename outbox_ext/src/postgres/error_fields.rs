//! All fields of PostgreSQL's errors, beside the message.
//!
//! pgrx catches each ERROR, unwinds as Rust does, and raises it again at the outermost function with its SQLSTATE,
//! message, detail and hint: constraint, table, column, schema, datatype, position and inner context are gone, and an
//! SQLSTATE that PostgreSQL has no name for, as a user's trigger may raise, has become XX000.
//!
//! PostgreSQL asks a stack of callbacks for context before it throws an error. One callback here notes the error that
//! is thrown, and another completes the error that pgrx raises in its place.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

use pgrx::pg_sys::{self, ErrorContextCallback, ErrorData};
use pgrx::{PgLogLevel, PgSqlErrorCode};

unsafe extern "C-unwind" {
    // pgrx has no bindings of these two.
    fn errcode(sqlstate: c_int) -> c_int;
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
}

/// Does the work; its error reaches the client with all fields. The outermost function, which PostgreSQL calls, needs
/// it.
pub(crate) fn with_all_error_fields<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the backend's own variables. The callback and `noted` are on this function's stack. The callback leaves
    // PostgreSQL's stack before this function returns, because unwinding stops at catch_unwind.
    unsafe {
        let mut noted = Noted { memory: pg_sys::CurrentMemoryContext, error: null_mut() };
        let previous = pg_sys::error_context_stack;
        let mut callback = ErrorContextCallback { previous, callback: Some(note), arg: (&raw mut noted).cast() };
        pg_sys::error_context_stack = &raw mut callback;
        let done = catch_unwind(AssertUnwindSafe(work));
        pg_sys::error_context_stack = previous;
        match done {
            Ok(done) => done,
            Err(panic) => {
                if !(&raw const noted.error).read_volatile().is_null() {
                    complete_later(&noted);
                }
                resume_unwind(panic)
            }
        }
    }
}

/// The last error that was thrown. It may have been caught since.
struct Noted {
    memory: pg_sys::MemoryContext,
    error: *mut ErrorData,
}

/// Notes an error as it is thrown. PostgreSQL calls this function for notices, too.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn note(noted: *mut c_void) {
    // SAFETY: with_all_error_fields is still on the stack. PostgreSQL calls back while it has an error, in its memory.
    unsafe {
        let noted = noted.cast::<Noted>();
        if pg_sys::geterrcode() == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int {
            return; // asks for no more memory; the error has no fields
        }
        let mut error = copy_error((*noted).memory);
        if (*error).elevel == PgLogLevel::ERROR as c_int {
            std::mem::swap(&mut error, &mut (*noted).error);
        }
        if !error.is_null() {
            pg_sys::FreeErrorData(error); // a notice, or an earlier error, which was caught
        }
    }
}

unsafe fn copy_error(memory: pg_sys::MemoryContext) -> *mut ErrorData {
    // SAFETY: the callers are called back for an error, and give memory that lives.
    unsafe {
        let before = pg_sys::MemoryContextSwitchTo(memory);
        let error = pg_sys::CopyErrorData();
        pg_sys::MemoryContextSwitchTo(before);
        error
    }
}

/// Has [`complete`] called for the error that pgrx raises next. PostgreSQL resets the stack when it catches that error.
unsafe fn complete_later(noted: &Noted) {
    // SAFETY: the memory is that of the call, which lives until the error is caught.
    unsafe {
        let kept = pg_sys::MemoryContextAlloc(noted.memory, size_of::<Noted>()).cast::<Noted>();
        kept.write(Noted { memory: noted.memory, error: noted.error });
        let callback = pg_sys::MemoryContextAlloc(noted.memory, size_of::<ErrorContextCallback>());
        let callback = callback.cast::<ErrorContextCallback>();
        let previous = pg_sys::error_context_stack;
        callback.write(ErrorContextCallback { previous, callback: Some(complete), arg: kept.cast() });
        pg_sys::error_context_stack = callback;
    }
}

/// Completes the error that is being raised, if it is the noted one.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn complete(kept: *mut c_void) {
    // SAFETY: complete_later made `kept`, in memory that lives until the error is caught. PostgreSQL has these
    // functions for its callbacks; they copy the texts.
    unsafe {
        let kept = &*kept.cast::<Noted>();
        let (noted, raised) = (&*kept.error, copy_error(kept.memory));
        let is_the_same = (*raised).lineno == noted.lineno
            && text((*raised).filename) == text(noted.filename)
            && text((*raised).message) == text(noted.message);
        pg_sys::FreeErrorData(raised);
        if !is_the_same {
            return;
        }
        errcode(noted.sqlerrcode);
        for (field, value) in [
            (pg_sys::PG_DIAG_SCHEMA_NAME, noted.schema_name),
            (pg_sys::PG_DIAG_TABLE_NAME, noted.table_name),
            (pg_sys::PG_DIAG_COLUMN_NAME, noted.column_name),
            (pg_sys::PG_DIAG_DATATYPE_NAME, noted.datatype_name),
            (pg_sys::PG_DIAG_CONSTRAINT_NAME, noted.constraint_name),
        ] {
            if !value.is_null() {
                pg_sys::err_generic_string(field as c_int, value);
            }
        }
        if !noted.detail_log.is_null() {
            pg_sys::errdetail_log(c"%s".as_ptr(), noted.detail_log);
        }
        if !noted.internalquery.is_null() {
            pg_sys::internalerrquery(noted.internalquery);
            pg_sys::internalerrposition(noted.internalpos);
        }
        if !noted.context.is_null() {
            errcontext_msg(c"%s".as_ptr(), noted.context);
        }
    }
}

unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller gives null or a C string that lives.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}
