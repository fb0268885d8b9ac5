//! The errors of an event that is emitted or inserted. `sql/native/plain/admit.sql` has the same list in PL/pgSQL.

use pgrx::PgSqlErrorCode;

use crate::limits::{HEADERS_BYTES, HEADERS_DEPTH, LimitedBy, MESSAGE_BYTES, SHORT_STRING_BYTES};
use crate::postgres::{Column, Report, raise};
use crate::reserved::Shape;

/// Why an event cannot be emitted, or inserted by hand.
#[derive(Debug)]
pub(crate) enum EmitError {
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
    /// Bytes that are not UTF-8.
    NotUtf8(Column),
    /// The setting `outbox.correlation_id` is longer than [`SHORT_STRING_BYTES`].
    CorrelationIdTooLong(usize),
    /// The setting `outbox.correlation_id` is not UTF-8.
    CorrelationIdNotUtf8,
    /// The setting `outbox.traceparent` is not a traceparent.
    NotTraceparent,
    /// A body larger than the session or the owner permits: its size, that limit, and who has set it.
    PayloadTooLarge(usize, usize, LimitedBy),
    /// A restored body larger than [`MESSAGE_BYTES`].
    MessageTooLarge(usize),
    /// Headers that are JSON, but no object.
    HeadersNoObject,
    /// A header of RabbitMQ's that must be an array.
    HeaderNoList(&'static str),
    /// A header that only RabbitMQ writes: the beginning of its name.
    HeaderReserved(String),
    /// A header that RabbitMQ or the relay reads, with a value of another shape: its name, and the shape that it must
    /// have.
    HeaderUnfit(String, Shape),
    /// An `event_type` to which RabbitMQ gives a meaning of its own.
    EventTypeReserved,
    /// A `correlation_id` that begins with `urn:uuid:`, without a uuid behind it.
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
    /// Headers with an escape that no text holds.
    HeaderUnreadable,
    /// A number that no double holds: the beginning of the name of its header.
    HeaderNumberTooLarge(String),
    /// `available_at` is infinity.
    NeverAvailable,
    /// `emit` inserted nothing: a trigger of the user's returned NULL.
    NotInserted,
}

impl EmitError {
    /// Ends the statement with this error.
    pub(crate) fn raise(self) -> ! {
        raise(self.report())
    }

    /// The error as PostgreSQL reports it.
    pub(crate) fn report(self) -> Report {
        use PgSqlErrorCode::*;
        match self {
            Self::NoTopic => (
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "topic must not be null".into(),
                None,
                Some("Give the routing key, for example 'orders.created'."),
            ),
            Self::NoPayload => (
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "payload must not be null".into(),
                None,
                Some("For an event without data give '{}'."),
            ),
            Self::TwoPayloads => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "payload and payload_bytes must not both be given".into(),
                None,
                Some("Give JSON as payload, or bytes as payload_bytes."),
            ),
            Self::Empty(column) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{} must not be empty", column.name()),
                None,
                Some(match column {
                    Column::Topic => "Give the routing key, for example 'orders.created'.",
                    _ => "Leave it out, or give null.",
                }),
            ),
            Self::TooLong(column, bytes) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("{} is {bytes} bytes long, the limit is {SHORT_STRING_BYTES}", column.name()),
                Some("AMQP carries it as a short string, which holds 255 bytes of UTF-8.".into()),
                Some("Shorten it, or put it into the payload."),
            ),
            Self::NotUtf8(column) => (
                ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
                format!("{} is not valid UTF-8", column.name()),
                None,
                Some("Bytes that are no text can be the payload, as bytea."),
            ),
            Self::CorrelationIdNotUtf8 => (
                ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
                "correlation_id is not valid UTF-8".into(),
                Some("It was taken from the setting outbox.correlation_id.".into()),
                Some("Change the setting, or give correlation_id."),
            ),
            Self::NotTraceparent => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "the setting outbox.traceparent is not a traceparent".into(),
                Some("W3C Trace Context: version, trace id, parent id and flags, in lower-case hexadecimal.".into()),
                Some("For example '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'."),
            ),
            Self::CorrelationIdTooLong(bytes) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("correlation_id is {bytes} bytes long, the limit is {SHORT_STRING_BYTES}"),
                Some("It was taken from the setting outbox.correlation_id.".into()),
                Some("Shorten the setting, or give correlation_id."),
            ),
            Self::PayloadTooLarge(bytes, limit, limited_by) => (
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
                        "Store the data and emit a reference to it. \
                         The owner raises the limit: SELECT outbox.limit_payloads('64MB');"
                    }
                }),
            ),
            Self::MessageTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("payload is {} bytes, the limit is {MESSAGE_BYTES}", at_most(bytes)),
                Some("No RabbitMQ takes a larger message by default.".into()),
                Some("Leave this event out."),
            ),
            Self::HeadersNoObject => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "headers must be a JSON object".into(),
                None,
                Some("For example '{\"tenant\": \"acme\"}'."),
            ),
            Self::HeaderNoList(name) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be an array"),
                Some("RabbitMQ takes it for routing keys by which it sends copies.".into()),
                Some("For example '{\"CC\": [\"orders.copy\"]}'; or give the header another name."),
            ),
            Self::HeaderReserved(name) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} is RabbitMQ's own"),
                Some(
                    "RabbitMQ or one of its plugins writes it, \
                     and what others write there can crash queues and consumers."
                        .into(),
                ),
                Some("Leave it out, or give the header another name."),
            ),
            Self::HeaderUnfit(name, Shape::Encoding) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be {}", Shape::Encoding.words()),
                Some("It becomes the AMQP property content_encoding.".into()),
                Some("For example '{\"content-encoding\": \"gzip\"}'."),
            ),
            Self::HeaderUnfit(name, shape) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the header {name} must be {}", shape.words()),
                Some("RabbitMQ or one of its plugins reads it, and closes connections over anything else.".into()),
                Some("Give such a value, or give the header another name."),
            ),
            Self::EventTypeReserved => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "event_type must not be amqp-1.0".into(),
                Some("RabbitMQ takes the payload of such a message for encoded AMQP 1.0.".into()),
                Some("Give the type another name."),
            ),
            Self::CorrelationIdBrokenUrn => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "correlation_id must have a uuid behind urn:uuid:".into(),
                Some("RabbitMQ reads it, and closes connections over anything else.".into()),
                Some("For example 'urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'; or leave out urn:uuid:."),
            ),
            Self::HeaderNameEmpty => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "headers must not have an empty name".into(),
                None,
                Some("Name every header, also in objects within headers."),
            ),
            Self::HeaderNameTooLong(bytes, start) => (
                ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("headers has a name of {bytes} bytes, the limit is {SHORT_STRING_BYTES}"),
                Some(format!("The name begins with \"{start}\".")),
                Some("Shorten it, or put it into the payload."),
            ),
            Self::HeadersTooDeep => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are nested deeper than {HEADERS_DEPTH} levels"),
                None,
                Some("Put the data into the payload."),
            ),
            Self::HeaderUnreadable => (
                ERRCODE_UNTRANSLATABLE_CHARACTER,
                "headers has an escape that is no text".into(),
                Some("No text has \\u0000, or half of a surrogate pair.".into()),
                Some("Leave it out, or put it into the payload."),
            ),
            Self::HeaderNumberTooLarge(start) => (
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "headers has a number that no double holds".into(),
                Some(format!("It is in the header that begins with \"{start}\".")),
                Some("Give it as text, or put it into the payload."),
            ),
            Self::HeadersTextTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are {} bytes, the limit is {HEADERS_BYTES}", at_most(bytes)),
                Some("They are counted as JSON text.".into()),
                Some("Put the data into the payload."),
            ),
            Self::HeadersTooLarge(bytes) => (
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("headers are {bytes} bytes, the limit is {HEADERS_BYTES}"),
                Some("They are counted as an AMQP table; all headers of a message must fit into one frame.".into()),
                Some("Put the data into the payload."),
            ),
            Self::NeverAvailable => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                "available_at must not be infinity".into(),
                None,
                Some("Give a time that comes, or leave it out."),
            ),
            Self::NotInserted => (
                ERRCODE_TRIGGERED_ACTION_EXCEPTION,
                "the event was not inserted".into(),
                Some("A trigger on outbox.events returned null.".into()),
                Some("Drop that trigger: an event that is not to be sent is not to be emitted."),
            ),
        }
    }
}

/// A size as an error names it. A value larger than any message is not converted, so its size in UTF-8 is not known.
fn at_most(bytes: usize) -> String {
    if bytes > MESSAGE_BYTES { format!("more than {MESSAGE_BYTES}") } else { bytes.to_string() }
}
