//! The size of JSON text, as PostgreSQL prints jsonb (`jsonb_out`): `{"a": 1, "b": [true, null]}`.

use super::tokens::Token;
use crate::postgres::utf8_bytes;

/// What is known of a text, token by token.
pub(crate) struct Printed {
    /// Its size.
    pub(crate) bytes: usize,
    /// Whether it is UTF-8: PostgreSQL does not look at what a session's startup packet sets.
    pub(crate) is_utf8: bool,
}

impl Printed {
    /// Nothing yet.
    pub(crate) fn nothing() -> Self {
        Self { bytes: 0, is_utf8: true }
    }

    /// Adds a token. A container's brackets, commas and colons are counted when it begins.
    #[inline]
    pub(crate) fn add(&mut self, token: &Token<'_>) {
        self.bytes += match token {
            Token::Object(0) | Token::Array(0) => 2,
            Token::Object(fields) => 2 + 2 * fields + 2 * (fields - 1),
            Token::Array(elements) => 2 + 2 * (elements - 1),
            Token::Close => 0,
            Token::Null | Token::Bool(true) => 4,
            Token::Bool(false) => 5,
            Token::Number(number) => number.printed_bytes(),
            Token::Name(text) | Token::Text(text) => {
                let (escapes, is_ascii) = look_at(text);
                let bytes = if is_ascii { Some(text.len()) } else { utf8_bytes(text) };
                self.is_utf8 &= bytes.is_some();
                2 + bytes.unwrap_or(text.len()) + escapes
            }
        };
    }
}

/// How many bytes escaping adds to a string, and whether it is ASCII.
#[inline]
fn look_at(text: &[u8]) -> (usize, bool) {
    let (chunks, rest) = text.as_chunks::<16>();
    let (mut escapes, mut all) = (0, 0);
    for chunk in chunks {
        // Without a branch, so that the processor looks at all of them at a time.
        let is_escaped =
            chunk.iter().fold(false, |found, &byte| found | (byte < b' ' || byte == b'"' || byte == b'\\'));
        all |= chunk.iter().fold(0, |all, &byte| all | byte);
        if is_escaped {
            escapes += chunk.iter().map(|&byte| escape(byte)).sum::<usize>();
        }
    }
    for &byte in rest {
        escapes += escape(byte);
        all |= byte;
    }
    (escapes, all < 0x80)
}

/// How many bytes more than one a byte is printed in.
#[inline]
fn escape(byte: u8) -> usize {
    #[allow(clippy::indexing_slicing)] // the compiler fills it
    static OF_EACH: [u8; 256] = {
        let mut more = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            more[byte] = match byte as u8 {
                b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
                0..=0x1f => 5, // \u001f
                _ => 0,
            };
            byte += 1;
        }
        more
    };
    OF_EACH.get(usize::from(byte)).copied().unwrap_or_default().into()
}
