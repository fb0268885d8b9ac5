//! Texts as the relay is sent them, which is in UTF-8 whatever the database's encoding.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

/// A text in UTF-8, there or in the current memory context; `None`: it is none.
///
/// PostgreSQL sends the texts of a database in UTF-8 or `SQL_ASCII` as they are, and converts those of any other encoding. What it
/// cannot convert is its own error.
pub(crate) fn utf8(text: &[u8]) -> Option<&str> {
    if are_sent_unchanged() || text.is_ascii() {
        return str::from_utf8(text).ok();
    }
    // SAFETY: the text is as long as is said. What is returned is another C string, in the current memory context; it would be
    // the text itself where nothing is to be converted, which was ruled out.
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
