//! Checks of JSON headers, and their size as an AMQP table, without making the table.

use crate::emit_error::EmitError;
use crate::json::{Token, Tokens};
use crate::limits::{HEADERS_BYTES, HEADERS_DEPTH, MESSAGE_BYTES, SHORT_STRING_BYTES};
use crate::postgres::{Column, are_sent_unchanged, utf8};
use crate::reserved::{self, Rule};

/// Headers by which RabbitMQ sends copies: lists of routing keys (<https://www.rabbitmq.com/docs/sender-selected>).
/// RabbitMQ closes the channel over any other value.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// The header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// Adds a `traceparent` to headers; `None`: there are no others.
pub(crate) fn with_traceparent(headers: Option<&[u8]>, traceparent: &str) -> Vec<u8> {
    let open = headers.and_then(|object| object.trim_ascii_end().strip_suffix(b"}")).unwrap_or(b"{").trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b", " };
    let header = format!("\"{TRACEPARENT}\": {}}}", serde_json::Value::from(traceparent));
    [open, comma, header.as_bytes()].concat()
}

/// Checks headers against the limits of AMQP, and returns whether they have a `traceparent`. Headers of a new event
/// must not harm RabbitMQ or its plugins either; the relay leaves such headers of a restored event out.
///
/// A field of a table is its name (a length byte and the text), a type byte and the value. The relay sends numbers in 8
/// bytes, and text and containers have a length of 4 bytes before their content.
pub(crate) fn check(headers: &[u8], is_new: bool) -> Result<bool, EmitError> {
    if headers.len() > MESSAGE_BYTES {
        return Err(EmitError::HeadersTextTooLarge(headers.len()));
    }
    let Some(headers) = utf8(headers) else {
        let is_large = headers.len() > HEADERS_BYTES;
        return Err(if is_large {
            EmitError::HeadersTextTooLarge(headers.len())
        } else {
            EmitError::NotUtf8(Column::Headers)
        });
    };
    if !headers.trim_start().starts_with('{') {
        return Err(EmitError::HeadersNoObject);
    }
    if headers.len() > HEADERS_BYTES {
        return Err(EmitError::HeadersTextTooLarge(headers.len()));
    }
    let mut bytes = 0;
    let mut depth = 0;
    let mut deepest = 0;
    let mut longest = String::new(); // the longest name that is too long
    let mut nameless = false;
    let mut has_traceparent = false;
    let mut header = String::new(); // the header whose value the tokens belong to
    let mut no_list = None;
    let mut beyond_double = None;
    let mut reserved = None;
    for token in Tokens::of(headers) {
        if depth == 1 && !matches!(token, Token::Name(_) | Token::Close) {
            let is_list = matches!(token, Token::Array);
            no_list = no_list.or(COPIES.iter().find(|copy| **copy == header && !is_list));
            if is_new && reserved.is_none() {
                reserved = check_reserved(&header, &token);
            }
        }
        bytes += match token {
            Token::Name(name) => {
                let length = name.len();
                nameless |= name.is_empty();
                if length > SHORT_STRING_BYTES.max(longest.len()) {
                    longest = name.to_string();
                }
                if depth == 1 {
                    has_traceparent |= name == TRACEPARENT;
                    header = name.into_owned();
                }
                1 + length
            }
            Token::Object | Token::Array => {
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
            Token::Number(number) => {
                if !number.parse().is_ok_and(f64::is_finite) {
                    beyond_double.get_or_insert_with(|| header.clone());
                }
                1 + 8
            }
            Token::Text(text) => 1 + 4 + text.len(),
            Token::Unreadable => return Err(EmitError::HeaderUnreadable),
        };
    }
    bytes -= 1; // the outermost table has no type byte
    if let Some(name) = no_list {
        return Err(EmitError::HeaderNoList(name));
    }
    if nameless {
        return Err(EmitError::HeaderNameEmpty);
    }
    if !longest.is_empty() {
        return Err(EmitError::HeaderNameTooLong(longest.len(), beginning(&longest)));
    }
    if deepest > HEADERS_DEPTH {
        return Err(EmitError::HeadersTooDeep);
    }
    if bytes > HEADERS_BYTES {
        return Err(EmitError::HeadersTooLarge(bytes));
    }
    if let Some(header) = beyond_double {
        return Err(EmitError::HeaderNumberTooLarge(beginning(&header)));
    }
    reserved.map_or(Ok(has_traceparent), Err)
}

/// The error of a header that RabbitMQ, one of its plugins or the relay reads, if its value begins with this token;
/// `None`: the header has none.
fn check_reserved(header: &str, value: &Token<'_>) -> Option<EmitError> {
    match reserved::rule(header)? {
        Rule::Never => Some(EmitError::HeaderReserved(beginning(header))),
        Rule::Is(shape) if !shape.fits(value) => Some(EmitError::HeaderUnfit(beginning(header), shape)),
        Rule::Is(_) => None,
    }
}

/// The beginning of a name, for an error. Its characters are replaced where the database's encoding may not have them.
fn beginning(name: &str) -> String {
    let shown = |character: char| if character.is_ascii() || are_sent_unchanged() { character } else { '?' };
    name.chars().take(40).map(shown).collect()
}
