//! The bytes of a value.

use pgrx::{pg_sys, varlena};

/// The bytes of a text, bytea or jsonb, without a header: where they are, or unpacked into the current memory context.
///
/// # Safety
/// The datum is a varlena, which stays as long as `'a`, and so does the memory context.
pub(super) unsafe fn bytes<'a>(value: pg_sys::Datum) -> &'a [u8] {
    let mut pointer = value.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: by this function's contract. Unpacked, a value has a header of one or four bytes and its bytes behind it.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            pointer = pg_sys::pg_detoast_datum_packed(pointer);
        }
        std::slice::from_raw_parts(varlena::vardata_any(pointer).cast(), varlena::varsize_any_exhdr(pointer))
    }
}
