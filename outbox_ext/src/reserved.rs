//! Headers that RabbitMQ or one of its plugins reads: which of them an event may have, and with which values.
//!
//! Each was tried on RabbitMQ 3.10 and 4.0, or read in their source: any other value has crashed a queue, closed a
//! connection, or ended consumers for good. `sql/native/plain/check_reserved.sql` and
//! `relay/service/src/sink/rabbitmq/reserved.rs` have the same lists.

use crate::json::Token;

/// The header that becomes the AMQP property `content_encoding`.
pub(crate) const CONTENT_ENCODING: &str = "content-encoding";

/// The AMQP `type` by which RabbitMQ takes a body for encoded AMQP 1.0. Over any other body it closes the connection.
pub(crate) const AMQP_1_0: &[u8] = b"amqp-1.0";

/// Whether a correlation id begins with `urn:uuid:` and goes on with 36 bytes that are no UUID. RabbitMQ 4 closes the
/// connection over it.
pub(crate) fn is_broken_urn(correlation_id: &[u8]) -> bool {
    let Some(uuid) = correlation_id.strip_prefix(b"urn:uuid:").filter(|uuid| uuid.len() == 36) else { return false };
    !uuid.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Headers that RabbitMQ or one of its plugins writes, and trusts when it reads them again.
const WRITTEN: [&str; 5] = ["x-death", "x-delivery-count", "x-invalid-headers", "x-received-from", "x-stream-offset"];

/// Beginnings of the names of further headers that RabbitMQ writes and trusts.
const WRITTEN_FAMILIES: [&str; 3] = ["x-amqp-1.0-", "x-basic-", "x-mqtt-"];

/// The shape that the value of a header must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A number.
    Number,
    /// A number, or up to 18 digits as text.
    Digits,
    /// A text of any length.
    Text,
    /// A text of up to 4096 bytes. RabbitMQ 4 takes a longer text for bytes.
    ShortText,
    /// No null, no array, no object.
    Scalar,
    /// The name of an encoding, as in HTTP's header of that name, in up to 255 bytes.
    Encoding,
}

/// The rule for a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// An event must not have it.
    Never,
    /// Its value must be of this shape.
    Is(Shape),
}

/// The rule for the header of this name, if there is one.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    if name == CONTENT_ENCODING {
        return Some(Rule::Is(Shape::Encoding));
    }
    if !name.starts_with("x-") {
        return None; // nearly every header
    }
    if WRITTEN.contains(&name) || WRITTEN_FAMILIES.iter().any(|family| name.starts_with(family)) {
        return Some(Rule::Never);
    }
    match name {
        "x-cache-ttl" => Some(Rule::Is(Shape::Number)),
        "x-delay" => Some(Rule::Is(Shape::Digits)),
        "x-correlation-id" | "x-reply-to-topic" => Some(Rule::Is(Shape::Text)),
        "x-stream-filter-value" => Some(Rule::Is(Shape::ShortText)),
        "x-deduplication-header" => Some(Rule::Is(Shape::Scalar)),
        _ => None,
    }
}

impl Shape {
    /// The shape in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Number | Self::Digits => "a number",
            Self::Text => "a text",
            Self::ShortText => "a text of at most 4096 bytes",
            Self::Scalar => "a text, a number or a boolean",
            Self::Encoding => "the name of an encoding",
        }
    }

    /// Whether a value that begins with this token has the shape.
    pub(crate) fn fits(self, value: &Token<'_>) -> bool {
        match (self, value) {
            (Self::Number | Self::Digits | Self::Scalar, Token::Number(_)) | (Self::Scalar, Token::Bool) => true,
            (Self::Text | Self::Scalar, Token::Text(_)) => true,
            (Self::ShortText, Token::Text(text)) => text.len() <= 4096,
            (Self::Digits, Token::Text(text)) => {
                (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
            }
            (Self::Encoding, Token::Text(text)) => {
                (1..=255).contains(&text.len())
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~, -".contains(&byte))
            }
            _ => false,
        }
    }
}
