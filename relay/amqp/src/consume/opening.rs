//! From a node's address to a queue that is consumed: declared, bound, and with a bound of its own.
//!
//! ```text
//! channel.open ─▶ ◀─ ok    queue.declare ─▶ ◀─ ok    queue.bind ─▶ ◀─ ok …
//! basic.qos ─▶ ◀─ ok    basic.consume ─▶ ◀─ ok
//! ```

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::config::ConsumeConfig;
use crate::{
    connect::{
        dial::Peer,
        error::AmqpError,
        handshake::{Handshake, Opened, connect, shake_hands},
    },
    protocol::{
        method::{self, ACCESS_REFUSED, BASIC, CHANNEL, Method, NOT_FOUND, put_method},
        wire::{put_long_string, put_short_string, put_sized},
    },
};

/// Class of the methods for queues.
const QUEUE: u16 = 50;

/// Connects to the node and begins to consume, without a time limit.
pub(crate) async fn open(config: &ConsumeConfig, peer: Peer) -> Result<Opened, AmqpError> {
    let socket = connect(&config.url, &peer).await?;
    let (opened, ()) =
        shake_hands(&config.client(), socket, async |handshake| handshake.open_queue(config).await).await?;
    Ok(opened)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<S> {
    /// Opens the channel and the queue.
    pub(crate) async fn open_queue(&mut self, config: &ConsumeConfig) -> Result<(), AmqpError> {
        method::channel_open(&mut self.out, CHANNEL);
        self.ask_for(&Method::ChannelOpenOk).await?;
        self.consume(config).await.map_err(|error| match error {
            AmqpError::ChannelClosed { code: ACCESS_REFUSED, text } => {
                AmqpError::MayNotConsume { exchange: config.exchange.clone(), text }
            }
            AmqpError::ChannelClosed { code: NOT_FOUND, text } => {
                AmqpError::ExchangeMissing { exchange: config.exchange.clone(), text }
            }
            other => other,
        })
    }

    async fn consume(&mut self, config: &ConsumeConfig) -> Result<(), AmqpError> {
        declare_queue(&mut self.out, config);
        self.ask_for(&Method::QueueDeclareOk).await?;
        for binding in &config.bindings {
            bind_queue(&mut self.out, &config.queue, &config.exchange, binding);
            self.ask_for(&Method::QueueBindOk).await?;
        }
        limit_prefetch(&mut self.out, config.prefetch);
        self.ask_for(&Method::QosOk).await?;
        consume_queue(&mut self.out, &config.queue);
        self.ask_for(&Method::ConsumeOk).await
    }
}

/// queue.declare of an exclusive queue that is deleted with its connection. A quorum queue cannot be exclusive, so the
/// type is named: the virtual host may have another default.
fn declare_queue(out: &mut BytesMut, config: &ConsumeConfig) {
    /// Bits of the flags: passive, durable, exclusive, auto-delete, no-wait.
    const EXCLUSIVE: u8 = 0b100;
    const AUTO_DELETE: u8 = 0b1000;
    put_method(out, CHANNEL, (QUEUE, 10), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, config.queue.as_bytes());
        out.put_u8(EXCLUSIVE | AUTO_DELETE);
        put_sized(out, |out| {
            for (name, text) in [("x-queue-type", "classic"), ("x-overflow", "drop-head")] {
                put_short_string(out, name.as_bytes());
                out.put_u8(b'S');
                put_long_string(out, text.as_bytes());
            }
            for (name, number) in [("x-max-length", config.queue_messages), ("x-max-length-bytes", config.queue_bytes)]
            {
                put_short_string(out, name.as_bytes());
                out.put_u8(b'l');
                out.put_i64(number.into());
            }
        });
    });
}

/// queue.bind
fn bind_queue(out: &mut BytesMut, queue: &str, exchange: &str, binding: &str) {
    put_method(out, CHANNEL, (QUEUE, 20), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, queue.as_bytes());
        put_short_string(out, exchange.as_bytes());
        put_short_string(out, binding.as_bytes());
        out.put_u8(0); // the broker answers
        out.put_u32(0); // no arguments
    });
}

/// basic.qos
fn limit_prefetch(out: &mut BytesMut, messages: u16) {
    put_method(out, CHANNEL, (BASIC, 10), |out| {
        out.put_u32(0); // no limit in bytes, which RabbitMQ does not have
        out.put_u16(messages);
        out.put_u8(0); // for each consumer
    });
}

/// basic.consume, exclusively and with acks. The broker names the consumer.
fn consume_queue(out: &mut BytesMut, queue: &str) {
    /// Bits of the flags: no-local, no-ack, exclusive, no-wait.
    const EXCLUSIVE: u8 = 0b100;
    put_method(out, CHANNEL, (BASIC, 20), |out| {
        out.put_u16(0); // reserved
        put_short_string(out, queue.as_bytes());
        put_short_string(out, b"");
        out.put_u8(EXCLUSIVE);
        out.put_u32(0); // no arguments
    });
}
