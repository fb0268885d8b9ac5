//! The shape of JSON headers as an AMQP table, found without making one.

use crate::postgres::{Jsonb, Token};
use crate::refusal::{HEADERS_BYTES, HEADERS_DEPTH, Refusal, SHORT_STRING_BYTES};

/// The header of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Checks headers against the limits of AMQP, and says whether they have a `traceparent`.
///
/// A field of a table is its name (a length byte and the text), a type byte and the value; the relay sends numbers in 8
/// bytes, and text and containers have a length of 4 bytes before their content.
pub(crate) fn check(headers: &Jsonb) -> Result<bool, Refusal> {
    if !headers.is_object() {
        return Err(Refusal::HeadersNoObject);
    }
    let mut bytes = 0;
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut longest: Option<&[u8]> = None;
    let mut nameless = false;
    let mut traced = false;
    for token in headers.tokens() {
        bytes += match token {
            Token::Name(name) => {
                nameless |= name.is_empty();
                traced |= depth == 1 && name == TRACEPARENT.as_bytes();
                if longest.is_none_or(|longest| name.len() > longest.len()) {
                    longest = Some(name);
                }
                1 + name.len()
            }
            Token::Open => {
                depth += 1;
                deepest = deepest.max(depth);
                1 + 4
            }
            Token::Close => {
                depth -= 1;
                0
            }
            Token::Null => 1,
            Token::Bool => 1 + 1,
            Token::Number => 1 + 8,
            Token::Text(length) => 1 + 4 + length,
        };
    }
    bytes -= 1; // the outermost table has no type byte

    if nameless {
        return Err(Refusal::HeaderNameEmpty);
    }
    if let Some(name) = longest.filter(|name| name.len() > SHORT_STRING_BYTES) {
        let start = String::from_utf8_lossy(name).chars().take(40).collect();
        return Err(Refusal::HeaderNameTooLong(name.len(), start));
    }
    if deepest > HEADERS_DEPTH {
        return Err(Refusal::HeadersTooDeep);
    }
    if bytes > HEADERS_BYTES {
        return Err(Refusal::HeadersTooLarge(bytes));
    }
    Ok(traced)
}
