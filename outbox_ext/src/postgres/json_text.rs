//! JSON as text, from a json or a jsonb.

use pgrx::{direct_function_call_as_datum, pg_sys};

use super::varlena::bytes;

/// The text that PostgreSQL prints for a jsonb, as a json in the current memory context.
///
/// # Safety
/// `jsonb` is a jsonb that is not null.
pub(super) unsafe fn printed(jsonb: pg_sys::Datum) -> pg_sys::Datum {
    // SAFETY: jsonb_out takes a jsonb and returns a C string; a json is stored as a text is.
    unsafe {
        match direct_function_call_as_datum(pg_sys::jsonb_out, &[Some(jsonb)]) {
            Some(text) => pg_sys::cstring_to_text(text.cast_mut_ptr()).into(),
            None => pgrx::error!("jsonb_out returned null"),
        }
    }
}

/// The text of a json, or of a jsonb, which outbox.events had before 0.3.0.
///
/// # Safety
/// `value` is a jsonb if `is_jsonb`, and a json otherwise. It and the memory context live as long as `'a`.
pub(super) unsafe fn text<'a>(value: pg_sys::Datum, is_jsonb: bool) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe { bytes(if is_jsonb { printed(value) } else { value }) }
}
