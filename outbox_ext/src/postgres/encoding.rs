//! Texts as the relay is sent them, which is in UTF-8 whatever the database's encoding.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

/// How many bytes a text has in UTF-8; `None`: it is none.
///
/// PostgreSQL sends the texts of a database in UTF-8 or `SQL_ASCII` as they are, and converts those of any other encoding. What it
/// cannot convert is its own error.
pub(crate) fn utf8_bytes(text: &[u8]) -> Option<usize> {
    if are_sent_unchanged() {
        return std::str::from_utf8(text).is_ok().then_some(text.len());
    }
    if text.is_ascii() {
        return Some(text.len());
    }
    // SAFETY: the text is as long as is said. What is returned is another C string, in the current memory context; it would be
    // the text itself where nothing is to be converted, which was ruled out.
    unsafe {
        let encoding = pg_sys::pg_enc::PG_UTF8 as c_int;
        let converted = pg_sys::pg_server_to_any(text.as_ptr().cast(), text.len() as c_int, encoding);
        let bytes = CStr::from_ptr(converted).count_bytes();
        pg_sys::pfree(converted.cast());
        Some(bytes)
    }
}

/// Whether the texts of this database go to a client in UTF-8 without a conversion.
pub(crate) fn are_sent_unchanged() -> bool {
    thread_local! {
        static ANSWER: Cell<Option<bool>> = const { Cell::new(None) };
    }
    ANSWER.get().unwrap_or_else(|| {
        // SAFETY: a variable of the backend, and a function that reads one.
        let (database, encoding) = unsafe { (pg_sys::MyDatabaseId, pg_sys::GetDatabaseEncoding()) };
        let answer =
            [pg_sys::pg_enc::PG_UTF8, pg_sys::pg_enc::PG_SQL_ASCII].iter().any(|known| *known as c_int == encoding);
        if database != pg_sys::InvalidOid {
            ANSWER.set(Some(answer));
        }
        answer
    })
}
