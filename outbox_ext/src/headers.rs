//! The shape of JSON headers, as text and as an AMQP table, found without making the table.

use crate::json::{Token, Tokens};
use crate::postgres::{Column, are_sent_unchanged, utf8};
use crate::refusal::{HEADERS_BYTES, HEADERS_DEPTH, MESSAGE_BYTES, Refusal, SHORT_STRING_BYTES};
use crate::reserved::{self, Rule};

/// Headers by which RabbitMQ sends copies: lists of routing keys (<https://www.rabbitmq.com/docs/sender-selected>). RabbitMQ
/// closes the channel over anything else in them.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// The header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// Headers, or none, with a `traceparent`.
pub(crate) fn with_traceparent(headers: Option<&[u8]>, traceparent: &str) -> Vec<u8> {
    let open = headers.and_then(|object| object.trim_ascii_end().strip_suffix(b"}")).unwrap_or(b"{").trim_ascii_end();
    let comma: &[u8] = if open.ends_with(b"{") { b"" } else { b", " };
    let header = format!("\"{TRACEPARENT}\": {}}}", serde_json::Value::from(traceparent));
    [open, comma, header.as_bytes()].concat()
}

/// Checks headers against the limits of AMQP, and says whether they have a `traceparent`. Those of a new event are checked for what
/// RabbitMQ or its plugins cannot bear, too; of a restored one the relay leaves that out.
///
/// A field of a table is its name (a length byte and the text), a type byte and the value; the relay sends numbers in 8
/// bytes, and text and containers have a length of 4 bytes before their content.
pub(crate) fn check(headers: &[u8], is_new: bool) -> Result<bool, Refusal> {
    if headers.len() > MESSAGE_BYTES {
        return Err(Refusal::HeadersTextTooLarge(headers.len()));
    }
    let Some(headers) = utf8(headers) else {
        let is_large = headers.len() > HEADERS_BYTES;
        return Err(if is_large {
            Refusal::HeadersTextTooLarge(headers.len())
        } else {
            Refusal::NotUtf8(Column::Headers)
        });
    };
    if !headers.trim_start().starts_with('{') {
        return Err(Refusal::HeadersNoObject);
    }
    if headers.len() > HEADERS_BYTES {
        return Err(Refusal::HeadersTextTooLarge(headers.len()));
    }
    let mut bytes = 0;
    let mut depth = 0;
    let mut deepest = 0;
    let mut longest = String::new(); // of the names that are too long
    let mut nameless = false;
    let mut traced = false;
    let mut header = String::new(); // the one whose value comes next, or is walked over
    let mut no_list = None;
    let mut beyond_double = None;
    let mut reserved = None;
    for token in Tokens::of(headers) {
        if depth == 1 && !matches!(token, Token::Name(_) | Token::Close) {
            let is_list = matches!(token, Token::Array);
            no_list = no_list.or(COPIES.iter().find(|copy| **copy == header && !is_list));
            if is_new && reserved.is_none() {
                reserved = refusal(&header, &token);
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
                    traced |= name == TRACEPARENT;
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
            Token::Unreadable => return Err(Refusal::HeaderUnreadable),
        };
    }
    bytes -= 1; // the outermost table has no type byte
    if let Some(name) = no_list {
        return Err(Refusal::HeaderNoList(name));
    }
    if nameless {
        return Err(Refusal::HeaderNameEmpty);
    }
    if !longest.is_empty() {
        return Err(Refusal::HeaderNameTooLong(longest.len(), beginning(&longest)));
    }
    if deepest > HEADERS_DEPTH {
        return Err(Refusal::HeadersTooDeep);
    }
    if bytes > HEADERS_BYTES {
        return Err(Refusal::HeadersTooLarge(bytes));
    }
    if let Some(header) = beyond_double {
        return Err(Refusal::HeaderNumberTooLarge(beginning(&header)));
    }
    reserved.map_or(Ok(traced), Err)
}

/// What is wrong with a header that RabbitMQ, one of its plugins or the relay reads, if its value begins with this
/// token.
fn refusal(header: &str, value: &Token<'_>) -> Option<Refusal> {
    match reserved::rule(header)? {
        Rule::Never => Some(Refusal::HeaderReserved(beginning(header))),
        Rule::Is(shape) if !shape.fits(value) => Some(Refusal::HeaderUnfit(beginning(header), shape)),
        Rule::Is(_) => None,
    }
}

/// As much of a name as a message shows, which goes out in the database's encoding.
fn beginning(name: &str) -> String {
    let shown = |character: char| if character.is_ascii() || are_sent_unchanged() { character } else { '?' };
    name.chars().take(40).map(shown).collect()
}
