//! The size of a value, without the value.

use pgrx::{pg_sys, varlena};

/// Bytes of a text, bytea or jsonb, uncompressed and without a header, found without unpacking it.
///
/// # Safety
/// The datum is a varlena.
pub(super) unsafe fn raw_size(value: pg_sys::Datum) -> usize {
    let pointer = value.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: by this function's contract. What is stored out of line or compressed says its size in its header, which
    // toast_raw_datum_size counts with one of four bytes.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            pg_sys::toast_raw_datum_size(value) - size_of::<i32>()
        } else {
            varlena::varsize_any_exhdr(pointer)
        }
    }
}
