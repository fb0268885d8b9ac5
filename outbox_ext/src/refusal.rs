//! What an event is refused for. `sql/native/plain/admit.sql` has the same list in PL/pgSQL.

use pgrx::PgSqlErrorCode;

use crate::postgres::{Column, Report, raise};
use crate::reserved::Shape;
use crate::settings::LimitedBy;

/// Longest text that AMQP carries as a short string, in bytes of UTF-8 (AMQP 0-9-1, section 4.2.5.3).
pub(crate) const SHORT_STRING_BYTES: usize = 255;

/// Largest message that a RabbitMQ takes by default, before 4.0.
pub(crate) const MESSAGE_BYTES: usize = 128 * 1024 * 1024;

/// Largest headers, in bytes of JSON text, and as an AMQP table. A message's properties must fit into one frame; RabbitMQ's default frame is
/// 128 KiB, and half of it leaves room for all other properties and what the relay adds.
pub(crate) const HEADERS_BYTES: usize = 64 * 1024;

/// Deepest nesting of headers. Consumers decode tables by recursion.
pub(crate) const HEADERS_DEPTH: usize = 64;

/// Why an event is not admitted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// No routing key.
    NoTopic,
    /// Neither `payload` nor `payload_bytes`.
    NoPayload,
    /// Both `payload` and `payload_bytes`.
    TwoPayloads,
    /// A text of length zero.
    Empty(Column),
    /// A text longer than [`SHORT_STRING_BYTES`].
    TooLong(Column, usize),
    /// Bytes that are no text.
    NotUtf8(Column),
    /// The setting `outbox.correlation_id` is longer than [`SHORT_STRING_BYTES`].
    CorrelationIdTooLong(usize),
    /// The setting `outbox.correlation_id` is no text.
    CorrelationIdNotUtf8,
    /// The setting `outbox.traceparent` is something else.
    NotTraceparent,
    /// A body larger than the session or the owner permits: its size, that limit, and whose it is.
    PayloadTooLarge(usize, usize, LimitedBy),
    /// A restored body larger than [`MESSAGE_BYTES`].
    MessageTooLarge(usize),
    /// Headers that are JSON, but no object.
    HeadersNoObject,
    /// A header of RabbitMQ's that must be an array.
    HeaderNoList(&'static str),
    /// A header that only RabbitMQ writes: the beginning of its name.
    HeaderReserved(String),
    /// A header that RabbitMQ or the relay reads, and whose value is none for it: its name, and what the value must be.
    HeaderUnfit(String, Shape),
    /// An `event_type` that has a meaning of its own for RabbitMQ.
    EventTypeReserved,
    /// A `correlation_id` that says that it is a uuid and is none.
    CorrelationIdBrokenUrn,
    /// A header without a name, at any depth.
    HeaderNameEmpty,
    /// A header whose name is longer than [`SHORT_STRING_BYTES`]: its length and its beginning.
    HeaderNameTooLong(usize, String),
    /// Headers nested deeper than [`HEADERS_DEPTH`].
    HeadersTooDeep,
    /// Headers larger than [`HEADERS_BYTES`], as JSON text.
    HeadersTextTooLarge(usize),
    /// Headers larger than [`HEADERS_BYTES`], as an AMQP table.
    HeadersTooLarge(usize),
    /// An escape that is no text.
    HeaderUnreadable,
    /// A number that no double holds: the beginning of its header's name.
    HeaderNumberTooLarge(String),
    /// A time that never comes.
    NeverAvailable,
    /// `emit` inserted nothing: a trigger of somebody else's returned NULL.
    NotInserted,
}

impl Refusal {
    /// Ends the statement with this refusal.
    pub(crate) fn raise(self) -> ! {
        raise(self.report())
    }

    /// The refusal as PostgreSQL tells it.
    pub(crate) fn report(self) -> Report {
        use PgSqlErrorCode::*;
        match self {
            Refusal::NoTopic => (
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "topic must not be null".into(),
                None,
                Some("Give the routing key, for example 'orders.created'."),
            ),
            Refusal::NoPayload => (
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "payload must not be null".into(),
                None,
                Some("For an event without data give '{}'."),
            ),
            Refusal::TwoPayloads => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "payload and payload_bytes must not both be given".into(),
                None,
                Some("Give JSON as payload, or bytes as payload_bytes."),
            ),
            Refusal::Empty(column) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{} must not be empty", column.name()),
                None,
                Some(match column {
                    Column::Topic => "Give the routing key, for example 'orders.created'.",
                    _ => "Leave it out, or give null.",
                }),
            ),
            Refusal::TooLong(column, bytes) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("{} is {bytes} bytes long, the limit is {SHORT_STRING_BYTES}", column.name()),
                Some("AMQP carries it as a short string, which holds 255 bytes of UTF-8.".into()),
                Some("Shorten it, or put it into the payload."),
            ),
            Refusal::NotUtf8(column) => (
                ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
                format!("{} is not valid UTF-8", column.name()),
                None,
                Some("Bytes that are no text can be the payload, as bytea."),
            ),
            Refusal::CorrelationIdNotUtf8 => (
                ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
                "correlation_id is not valid UTF-8".into(),
                Some("It was taken from the setting outbox.correlation_id.".into()),
                Some("Change the setting, or give correlation_id."),
            ),
            Refusal::NotTraceparent => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "the setting outbox.traceparent is not a traceparent".into(),
                Some("W3C Trace Context: version, trace id, parent id and flags, in lower-case hexadecimal.".into()),
                Some("For example '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'."),
            ),
            Refusal::CorrelationIdTooLong(bytes) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("correlation_id is {bytes} bytes long, the limit is {SHORT_STRING_BYTES}"),
                Some("It was taken from the setting outbox.correlation_id.".into()),
                Some("Shorten the setting, or give correlation_id."),
            ),
            Refusal::PayloadTooLarge(bytes, limit, limited_by) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("payload is {} bytes, the limit is {limit}", at_most(bytes)),
                Some(match limited_by {
                    LimitedBy::Session => "The limit is the setting outbox.max_payload_bytes.".into(),
                    LimitedBy::Owner => "The limit is the owner's, of all sessions.".into(),
                    LimitedBy::Hidden => {
                        "This session began with a value for outbox.payload_limit, which only a superuser sets.".into()
                    }
                }),
                Some(match limited_by {
                    LimitedBy::Session => "Store the data and emit a reference to it, or raise the setting.",
                    LimitedBy::Hidden => "Connect without that option.",
                    LimitedBy::Owner => {
                        "Store the data and emit a reference to it. The owner raises the limit: SELECT outbox.limit_payloads('64MB');"
                    }
                }),
            ),
            Refusal::MessageTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("payload is {} bytes, the limit is {MESSAGE_BYTES}", at_most(bytes)),
                Some("No RabbitMQ takes a larger message by default.".into()),
                Some("Leave this event out."),
            ),
            Refusal::HeadersNoObject => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "headers must be a JSON object".into(),
                None,
                Some("For example '{\"tenant\": \"acme\"}'."),
            ),
            Refusal::HeaderNoList(name) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be an array"),
                Some("RabbitMQ takes it for routing keys by which it sends copies.".into()),
                Some("For example '{\"CC\": [\"orders.copy\"]}'; or give the header another name."),
            ),
            Refusal::HeaderReserved(name) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} is RabbitMQ's own"),
                Some("RabbitMQ or one of its plugins writes it, and what others write there can crash queues and consumers.".into()),
                Some("Leave it out, or give the header another name."),
            ),
            Refusal::HeaderUnfit(name, Shape::Encoding) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be {}", Shape::Encoding.words()),
                Some("It becomes the AMQP property content_encoding.".into()),
                Some("For example '{\"content-encoding\": \"gzip\"}'."),
            ),
            Refusal::HeaderUnfit(name, shape) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be {}", shape.words()),
                Some("RabbitMQ or one of its plugins reads it, and closes connections over anything else.".into()),
                Some("Give such a value, or give the header another name."),
            ),
            Refusal::EventTypeReserved => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "event_type must not be amqp-1.0".into(),
                Some("RabbitMQ takes the payload of such a message for encoded AMQP 1.0.".into()),
                Some("Give the type another name."),
            ),
            Refusal::CorrelationIdBrokenUrn => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "correlation_id must have a uuid behind urn:uuid:".into(),
                Some("RabbitMQ reads it, and closes connections over anything else.".into()),
                Some("For example 'urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'; or leave out urn:uuid:."),
            ),
            Refusal::HeaderNameEmpty => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "headers must not have an empty name".into(),
                None,
                Some("Name every header, also in objects within headers."),
            ),
            Refusal::HeaderNameTooLong(bytes, start) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("headers has a name of {bytes} bytes, the limit is {SHORT_STRING_BYTES}"),
                Some(format!("The name begins with \"{start}\".")),
                Some("Shorten it, or put it into the payload."),
            ),
            Refusal::HeadersTooDeep => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are nested deeper than {HEADERS_DEPTH} levels"),
                None,
                Some("Put the data into the payload."),
            ),
            Refusal::HeaderUnreadable => (
                ERRCODE_UNTRANSLATABLE_CHARACTER,
                "headers has an escape that is no text".into(),
                Some("No text has \\u0000, or half of a surrogate pair.".into()),
                Some("Leave it out, or put it into the payload."),
            ),
            Refusal::HeaderNumberTooLarge(start) => (
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "headers has a number that no double holds".into(),
                Some(format!("It is in the header that begins with \"{start}\".")),
                Some("Give it as text, or put it into the payload."),
            ),
            Refusal::HeadersTextTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are {} bytes, the limit is {HEADERS_BYTES}", at_most(bytes)),
                Some("They are counted as JSON text.".into()),
                Some("Put the data into the payload."),
            ),
            Refusal::HeadersTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are {bytes} bytes, the limit is {HEADERS_BYTES}"),
                Some("They are counted as an AMQP table; all headers of a message must fit into one frame.".into()),
                Some("Put the data into the payload."),
            ),
            Refusal::NeverAvailable => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "available_at must not be infinity".into(),
                None,
                Some("Give a time that comes, or leave it out."),
            ),
            Refusal::NotInserted => (
                ERRCODE_TRIGGERED_ACTION_EXCEPTION,
                "the event was not inserted".into(),
                Some("A trigger on outbox.events returned null.".into()),
                Some("Drop that trigger: an event that is not to be sent is not to be emitted."),
            ),
        }
    }
}

/// A size for a message. What is larger than any message is not measured to its end.
fn at_most(bytes: usize) -> String {
    if bytes > MESSAGE_BYTES { format!("more than {MESSAGE_BYTES}") } else { bytes.to_string() }
}
