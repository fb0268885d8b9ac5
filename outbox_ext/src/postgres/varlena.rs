//! Values of variable length: their bytes and their size.

use pgrx::{pg_sys, varlena};

/// The bytes of a text, bytea or json without its header, in place or unpacked into the current memory context.
///
/// # Safety
/// The datum is a varlena. It and the memory context live as long as `'a`.
pub(crate) unsafe fn bytes<'a>(value: pg_sys::Datum) -> &'a [u8] {
    let mut pointer = value.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: by this function's contract. An unpacked value is a header of one or four bytes, followed by its bytes.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            pointer = pg_sys::pg_detoast_datum_packed(pointer);
        }
        std::slice::from_raw_parts(varlena::vardata_any(pointer).cast(), varlena::varsize_any_exhdr(pointer))
    }
}

/// Bytes of a text, bytea or json, uncompressed and without a header, found without unpacking it.
///
/// # Safety
/// The datum is a varlena.
pub(super) unsafe fn raw_size(value: pg_sys::Datum) -> usize {
    let pointer = value.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: by this function's contract. A value that is stored out of line or compressed has its size in its header;
    // toast_raw_datum_size adds a header of four bytes to it.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            pg_sys::toast_raw_datum_size(value) - size_of::<i32>()
        } else {
            varlena::varsize_any_exhdr(pointer)
        }
    }
}
