//! The methods of AMQP 0-9-1 that these clients read, and those that the publisher sends.
//!
//! Method numbers: <https://www.rabbitmq.com/amqp-0-9-1-reference.html>. Three dozen of sixty methods are written by
//! hand, because the crates with all of them bring a TCP and TLS stack of their own.

use bytes::{BufMut, BytesMut};

use super::wire::{HEADER, METHOD, Malformed, Reader, put_frame, put_long_string, put_short_string, put_sized};

/// The main channel. Channel 0 is the connection itself, and higher channels are side channels.
pub(crate) const CHANNEL: u16 = 1;

/// `basic`, the class of messages.
pub(crate) const BASIC: u16 = 60;

/// Reply codes that can concern the configured exchange, permissions or a message.
pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;

/// A method as the broker sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// connection.start, with the mechanisms for logging in, separated by spaces.
    Start { mechanisms: String },
    /// connection.tune: what the broker proposes; 0 is "no limit", and for the heartbeat (seconds) "none".
    Tune { channel_max: u16, frame_max: u32, heartbeat: u16 },
    /// connection.open-ok
    OpenOk,
    /// connection.close
    ConnectionClose { code: u16, text: String },
    /// connection.close-ok
    ConnectionCloseOk,
    /// connection.blocked: the broker is out of memory or disk, and reads no publishes.
    Blocked { reason: String },
    /// connection.unblocked
    Unblocked,
    /// channel.open-ok
    ChannelOpenOk,
    /// channel.flow: whether content may be sent.
    Flow { active: bool },
    /// channel.close
    ChannelClose { code: u16, text: String },
    /// exchange.declare-ok
    DeclareOk,
    /// exchange.unbind-ok
    UnbindOk,
    /// confirm.select-ok
    SelectOk,
    /// basic.return; a content header and body follow.
    Return { code: u16, text: String },
    /// basic.ack
    Ack { tag: u64, multiple: bool },
    /// basic.nack
    Nack { tag: u64, multiple: bool },
    /// queue.declare-ok
    QueueDeclareOk,
    /// queue.bind-ok
    QueueBindOk,
    /// basic.qos-ok
    QosOk,
    /// basic.consume-ok
    ConsumeOk,
    /// basic.cancel: the broker has ended the consumer, as when its queue is deleted.
    Cancel,
    /// basic.deliver; a content header and body follow.
    Deliver { tag: u64, redelivered: bool, exchange: String, routing_key: String },
    /// A method that these clients never ask for.
    Other { class: u16, method: u16 },
}

impl Method {
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let (class, method) = (reader.u16()?, reader.u16()?);
        Ok(match (class, method) {
            (10, 10) => {
                reader.take(2)?; // version of the protocol, agreed already
                reader.sized()?; // server properties
                Self::Start { mechanisms: String::from_utf8_lossy(reader.sized()?).into_owned() }
            }
            (10, 30) => Self::Tune { channel_max: reader.u16()?, frame_max: reader.u32()?, heartbeat: reader.u16()? },
            (10, 41) => Self::OpenOk,
            (10, 50) => Self::ConnectionClose { code: reader.u16()?, text: reader.text()? },
            (10, 51) => Self::ConnectionCloseOk,
            (10, 60) => Self::Blocked { reason: reader.text()? },
            (10, 61) => Self::Unblocked,
            (20, 11) => Self::ChannelOpenOk,
            (20, 20) => Self::Flow { active: reader.u8()? & 1 != 0 },
            (20, 40) => Self::ChannelClose { code: reader.u16()?, text: reader.text()? },
            (40, 11) => Self::DeclareOk,
            (40, 51) => Self::UnbindOk,
            (85, 11) => Self::SelectOk,
            (50, 11) => Self::QueueDeclareOk,
            (50, 21) => Self::QueueBindOk,
            (BASIC, 11) => Self::QosOk,
            (BASIC, 21) => Self::ConsumeOk,
            (BASIC, 30) => Self::Cancel,
            (BASIC, 60) => {
                reader.short_string()?; // consumer's tag: there is one consumer
                Self::Deliver {
                    tag: reader.u64()?,
                    redelivered: reader.u8()? & 1 != 0,
                    exchange: reader.text()?,
                    routing_key: reader.text()?,
                }
            }
            (BASIC, 50) => Self::Return { code: reader.u16()?, text: reader.text()? },
            (BASIC, 80) => Self::Ack { tag: reader.u64()?, multiple: reader.u8()? & 1 != 0 },
            (BASIC, 120) => Self::Nack { tag: reader.u64()?, multiple: reader.u8()? & 1 != 0 },
            (class, method) => Self::Other { class, method },
        })
    }
}

/// connection.start-ok. `properties` name the client to operators, and `response` is what the mechanism asks for.
pub(crate) fn start_ok(out: &mut BytesMut, properties: &[(&str, &str)], mechanism: &str, response: &[u8]) {
    /// RabbitMQ uses these only with a client that lists them:
    /// <https://www.rabbitmq.com/docs/connections#capabilities>.
    const CAPABILITIES: [&str; 5] = [
        "authentication_failure_close",
        "basic.nack",
        "connection.blocked",
        "consumer_cancel_notify",
        "publisher_confirms",
    ];
    put_method(out, 0, (10, 11), |out| {
        put_sized(out, |out| {
            for (name, value) in properties {
                put_short_string(out, name.as_bytes());
                out.put_u8(b'S');
                put_long_string(out, value.as_bytes());
            }
            put_short_string(out, b"capabilities");
            out.put_u8(b'F');
            put_sized(out, |out| {
                for capability in CAPABILITIES {
                    put_short_string(out, capability.as_bytes());
                    out.put_slice(b"t\x01");
                }
            });
        });
        put_short_string(out, mechanism.as_bytes());
        put_long_string(out, response);
        put_short_string(out, b"en_US");
    });
}

/// connection.tune-ok
pub(crate) fn tune_ok(out: &mut BytesMut, channel_max: u16, frame_max: u32, heartbeat_seconds: u16) {
    put_method(out, 0, (10, 31), |out| {
        out.put_u16(channel_max);
        out.put_u32(frame_max);
        out.put_u16(heartbeat_seconds);
    });
}

/// connection.open
pub(crate) fn open(out: &mut BytesMut, vhost: &str) {
    put_method(out, 0, (10, 40), |out| {
        put_short_string(out, vhost.as_bytes());
        out.put_slice(&[0, 0]); // two reserved fields
    });
}

/// connection.close, in peace.
pub(crate) fn connection_close(out: &mut BytesMut) {
    put_method(out, 0, (10, 50), |out| {
        out.put_u16(200);
        put_short_string(out, b"goodbye");
        out.put_u32(0); // no method is to blame
    });
}

/// connection.close-ok
pub(crate) fn connection_close_ok(out: &mut BytesMut) {
    put_method(out, 0, (10, 51), |_| ());
}

/// channel.open
pub(crate) fn channel_open(out: &mut BytesMut, channel: u16) {
    put_method(out, channel, (20, 10), |out| out.put_u8(0));
}

/// channel.flow-ok
pub(crate) fn flow_ok(out: &mut BytesMut, channel: u16, active: bool) {
    put_method(out, channel, (20, 21), |out| out.put_u8(active.into()));
}

/// channel.close-ok
pub(crate) fn channel_close_ok(out: &mut BytesMut, channel: u16) {
    put_method(out, channel, (20, 41), |_| ());
}

/// confirm.select
pub(crate) fn confirm_select(out: &mut BytesMut, channel: u16) {
    put_method(out, channel, (85, 10), |out| out.put_u8(0));
}

/// exchange.declare of a durable topic exchange. `passive` only asks whether it exists, with whatever type.
pub(crate) fn declare_exchange(out: &mut BytesMut, name: &str, passive: bool) {
    /// Bits of the flags: passive, durable, auto-delete, internal, no-wait.
    const DURABLE: u8 = 0b10;
    put_method(out, CHANNEL, (40, 10), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, name.as_bytes());
        put_short_string(out, b"topic");
        out.put_u8(DURABLE | u8::from(passive));
        out.put_u32(0); // no arguments
    });
}

/// exchange.unbind: removes a binding by which `destination` gets messages from `source`.
pub(crate) fn unbind_exchange(out: &mut BytesMut, destination: &str, source: &str, routing_key: &str) {
    put_method(out, CHANNEL, (40, 40), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, destination.as_bytes());
        put_short_string(out, source.as_bytes());
        put_short_string(out, routing_key.as_bytes());
        out.put_u8(0); // the broker answers
        out.put_u32(0); // no arguments
    });
}

/// basic.publish, mandatory: the broker returns a message for which there is no queue.
#[inline]
pub(crate) fn publish(out: &mut BytesMut, channel: u16, exchange: &[u8], routing_key: &[u8]) {
    /// Bits of the flags: mandatory, immediate.
    const MANDATORY: u8 = 0b1;
    put_method(out, channel, (BASIC, 40), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, exchange);
        put_short_string(out, routing_key);
        out.put_u8(MANDATORY);
    });
}

/// The content header of a message without properties and without a body.
pub(crate) fn empty_content(out: &mut BytesMut) {
    put_frame(out, HEADER, CHANNEL, |out| {
        out.put_u16(BASIC);
        out.put_u16(0); // weight: unused
        out.put_u64(0); // bytes of the body
        out.put_u16(0); // no properties
    });
}

/// Writes a method's frame.
pub(crate) fn put_method(
    out: &mut BytesMut,
    channel: u16,
    (class, method): (u16, u16),
    arguments: impl FnOnce(&mut BytesMut),
) {
    put_frame(out, METHOD, channel, |out| {
        out.put_u16(class);
        out.put_u16(method);
        arguments(out);
    });
}
