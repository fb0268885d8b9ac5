//! Texts in UTF-8, in which the relay receives them whatever the database's encoding.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

/// A text in UTF-8, in place or in the current memory context; `None`: its bytes are not UTF-8.
///
/// PostgreSQL sends the texts of a database in UTF-8 or `SQL_ASCII` as they are, and converts those of any other
/// encoding. It raises an error for a text that it cannot convert.
pub(crate) fn utf8(text: &[u8]) -> Option<&str> {
    if are_sent_unchanged() || text.is_ascii() {
        return str::from_utf8(text).ok();
    }
    // SAFETY: the pointer and the length are those of one text. A conversion returns another C string, in the current
    // memory context. It would return the text itself where nothing is to be converted, which are_sent_unchanged()
    // rules out.
    let converted = unsafe {
        let encoding = pg_sys::pg_enc::PG_UTF8 as c_int;
        CStr::from_ptr(pg_sys::pg_server_to_any(text.as_ptr().cast(), text.len() as c_int, encoding))
    };
    converted.to_str().ok()
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
