//! A jsonb value.

use pgrx::{direct_function_call_as_datum, pg_sys};

use super::varlena::bytes;

type BuiltIn = unsafe fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum;

/// A jsonb value, uncompressed.
pub(crate) struct Jsonb {
    datum: pg_sys::Datum,
    /// Without a header, in memory that lives as long as the call.
    bytes: &'static [u8],
}

impl Jsonb {
    /// # Safety
    /// `datum` is a jsonb that is not null.
    pub(super) unsafe fn from_datum(datum: pg_sys::Datum) -> Self {
        // SAFETY: by this function's contract. The lifetime is hidden: what is lent out is bound to self.
        Self { datum, bytes: unsafe { bytes(datum) } }
    }

    pub(super) fn datum(&self) -> pg_sys::Datum {
        self.datum
    }

    /// `{"name": "text"}`. Both are short, without control characters.
    pub(crate) fn object_of_one(name: &str, text: &str) -> Self {
        let json = format!("{{{}: {}}}\0", quoted(name), quoted(text));
        // SAFETY: jsonb_in takes a C string, which the zero byte ends, and returns a jsonb.
        unsafe { Self::returned_by(pg_sys::jsonb_in, &[Some(json.as_ptr().into())]) }
    }

    /// This object with the fields of another: `||`.
    pub(crate) fn with(&self, other: &Jsonb) -> Self {
        // SAFETY: jsonb_concat takes two jsonb and returns one.
        unsafe { Self::returned_by(pg_sys::jsonb_concat, &[Some(self.datum()), Some(other.datum())]) }
    }

    /// # Safety
    /// `function` takes these arguments, none of them null, and returns a jsonb.
    unsafe fn returned_by(function: BuiltIn, arguments: &[Option<pg_sys::Datum>]) -> Self {
        // SAFETY: by this function's contract.
        match unsafe { direct_function_call_as_datum(function, arguments) } {
            // SAFETY: likewise.
            Some(jsonb) => unsafe { Self::from_datum(jsonb) },
            None => pgrx::error!("a function of PostgreSQL returned null for jsonb"),
        }
    }

    /// Whether it is an object, not an array or a scalar.
    pub(crate) fn is_object(&self) -> bool {
        let header = self.bytes.first_chunk().map(|header| u32::from_ne_bytes(*header));
        header.is_some_and(|header| header & pg_sys::JB_FOBJECT != 0)
    }

    /// The bytes as they are stored, without a header.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

/// A JSON string (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
