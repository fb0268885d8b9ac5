//! The shape of JSON headers, as text and as an AMQP table, found without making either.

use crate::json::{Printed, Token, Tokens};
use crate::postgres::{Column, Jsonb, are_sent_unchanged, utf8_bytes};
use crate::refusal::{HEADERS_BYTES, HEADERS_DEPTH, MESSAGE_BYTES, Refusal, SHORT_STRING_BYTES};
use crate::reserved::{self, Rule, Shape};

/// Headers by which RabbitMQ sends copies: lists of routing keys (<https://www.rabbitmq.com/docs/sender-selected>). RabbitMQ
/// closes the channel over anything else in them.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// The header of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Checks headers against the limits of AMQP, and says whether they have a `traceparent`. Those of a new event are checked for what
/// RabbitMQ or its plugins cannot bear, too; of a restored one the relay leaves that out.
///
/// A field of a table is its name (a length byte and the text), a type byte and the value; the relay sends numbers in 8
/// bytes, and text and containers have a length of 4 bytes before their content.
pub(crate) fn check(headers: &Jsonb, is_new: bool) -> Result<bool, Refusal> {
    if !headers.is_object() {
        return Err(Refusal::HeadersNoObject);
    }
    let mut bytes = 0;
    let mut depth = 0;
    let mut deepest = 0;
    let mut longest: Option<(usize, &[u8])> = None;
    let mut nameless = false;
    let mut traced = false;
    let mut named = 0; // how many headers have had their names
    let mut header = 0; // how many headers' values have begun
    let mut copies = [0; COPIES.len()]; // which headers those are, from 1
    let mut no_list = None;
    let mut beyond_double = None;
    let mut shaped: Vec<(usize, Shape, &[u8])> = Vec::new(); // headers whose values must have a shape, by their numbers from 1
    let mut reserved: Option<(usize, Refusal)> = None; // the first header that must not be as it is
    let mut printed = Printed::nothing();
    for token in Tokens::of(headers.bytes()) {
        printed.add(&token);
        if printed.bytes > MESSAGE_BYTES {
            break;
        }
        if depth == 1 && !matches!(token, Token::Name(_) | Token::Close) {
            header += 1;
            if !matches!(token, Token::Array(_)) {
                no_list = no_list.or(copies.iter().position(|copy| *copy == header));
            }
            if let Some((_, shape, name)) =
                shaped.iter().find(|(number, shape, _)| *number == header && !shape.fits(&token, sent_bytes))
                && reserved.as_ref().is_none_or(|(number, _)| header < *number)
            {
                reserved = Some((header, Refusal::HeaderUnfit(beginning(name), *shape)));
            }
        }
        bytes += match token {
            Token::Name(name) => {
                nameless |= name.is_empty();
                if depth == 1 {
                    traced |= name == TRACEPARENT.as_bytes();
                    named += 1;
                    let copy = COPIES.iter().zip(&mut copies).find(|(copy, _)| copy.as_bytes() == name);
                    copy.into_iter().for_each(|(_, number)| *number = named);
                    match is_new.then(|| reserved::rule(name)).flatten() {
                        Some(Rule::Is(shape)) => shaped.push((named, shape, name)),
                        Some(Rule::Never) if reserved.is_none() => {
                            reserved = Some((named, Refusal::HeaderReserved(beginning(name))));
                        }
                        _ => {}
                    }
                }
                let length = sent_bytes(name);
                if longest.is_none_or(|(longest, _)| length > longest) {
                    longest = Some((length, name));
                }
                1 + length
            }
            Token::Object(_) | Token::Array(_) => {
                depth += 1;
                deepest = deepest.max(depth);
                1 + 4
            }
            Token::Close => {
                depth -= 1;
                0
            }
            Token::Null => 1,
            Token::Bool(_) => 1 + 1,
            Token::Number(number) => {
                if !number.fits_double() {
                    beyond_double = beyond_double.or(Some(header));
                }
                1 + 8
            }
            Token::Text(text) => 1 + 4 + sent_bytes(text),
        };
    }
    if printed.bytes > HEADERS_BYTES {
        return Err(Refusal::HeadersTextTooLarge(printed.bytes));
    }
    if !printed.is_utf8 {
        return Err(Refusal::NotUtf8(Column::Headers));
    }
    if let Some(name) = no_list.and_then(|copy| COPIES.get(copy)) {
        return Err(Refusal::HeaderNoList(name));
    }
    bytes -= 1; // the outermost table has no type byte
    if nameless {
        return Err(Refusal::HeaderNameEmpty);
    }
    if let Some((length, name)) = longest.filter(|(length, _)| *length > SHORT_STRING_BYTES) {
        return Err(Refusal::HeaderNameTooLong(length, beginning(name)));
    }
    if deepest > HEADERS_DEPTH {
        return Err(Refusal::HeadersTooDeep);
    }
    if bytes > HEADERS_BYTES {
        return Err(Refusal::HeadersTooLarge(bytes));
    }
    if let Some(header) = beyond_double {
        let mut names = Tokens::of(headers.bytes())
            .filter_map(|token| if let Token::Name(name) = token { Some(name) } else { None });
        return Err(Refusal::HeaderNumberTooLarge(beginning(names.nth(header - 1).unwrap_or_default())));
    }
    reserved.map_or(Ok(traced), |(_, refusal)| Err(refusal))
}

/// As many bytes as the relay is sent of a text; of what is none, and refused for that, as many as it has.
fn sent_bytes(text: &[u8]) -> usize {
    utf8_bytes(text).unwrap_or(text.len())
}

/// As much of a name as a message shows, which goes out in the database's encoding.
fn beginning(name: &[u8]) -> String {
    if are_sent_unchanged() {
        return String::from_utf8_lossy(name).chars().take(40).collect();
    }
    name.iter().take(40).map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect()
}
