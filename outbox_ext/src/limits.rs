//! The limits of an event, and who has set the limit of its payload.

/// Longest text that AMQP carries as a short string, in bytes of UTF-8 (AMQP 0-9-1, section 4.2.5.3).
pub(crate) const SHORT_STRING_BYTES: usize = 255;

/// Largest message that a RabbitMQ before 4.0 takes by default, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 128 * 1024 * 1024;

/// Largest headers, in bytes of JSON text, and as an AMQP table. All properties of a message must fit into one frame,
/// by default 128 KiB, and half of it leaves room for the other properties and for what the relay adds.
pub(crate) const HEADERS_BYTES: usize = 64 * 1024;

/// Deepest nesting of headers. Consumers decode tables by recursion.
pub(crate) const HEADERS_DEPTH: usize = 64;

/// Who has set the limit that a payload exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedBy {
    /// `outbox.max_payload_bytes`.
    Session,
    /// `outbox.payload_limit`.
    Owner,
    /// The session itself: it began with a value for `outbox.payload_limit`, which it may not set, and emits nothing.
    Hidden,
}
