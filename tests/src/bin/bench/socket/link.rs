//! A connection with one open channel.

use std::{fmt, io::Write, net::TcpStream};

use super::{
    received::{Reader, Received},
    wire::{CHANNEL, METHOD, Method, put_method, put_short_string, put_sized, put_text_field},
};

/// The longest frame, in bytes: RabbitMQ's default.
pub(super) const FRAME_MAX_BYTES: u32 = 131_072;

/// What RabbitMQ keeps the messages in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    /// On one node.
    Classic,
    /// Replicated by Raft; here with one member, since there is one node.
    Quorum,
}

impl fmt::Display for QueueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        })
    }
}

/// A durable queue, bound to a durable topic exchange.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) kind: QueueType,
    /// The exchange: `outbox` is the relay's default.
    pub(crate) exchange: String,
    /// The pattern it is bound by.
    pub(crate) binding: String,
}

impl Queue {
    /// One that gets everything that the relay publishes.
    pub(crate) fn of_relay(kind: QueueType) -> Self {
        let [name, exchange, binding] = ["bench", "outbox", "#"].map(str::to_owned);
        Self { name, kind, exchange, binding }
    }
}

/// An open channel on a connection of its own. Dropping it closes the socket.
pub(crate) struct Link {
    pub(super) socket: TcpStream,
    pub(super) received: Received,
}

impl Link {
    /// Connects and logs in. `url` is `amqp://user:password@host:port/vhost`.
    pub(crate) fn open(url: &str) -> Self {
        let parts = url.strip_prefix("amqp://").and_then(|url| {
            let (user, place) = url.split_once('@')?;
            Some((user.split_once(':')?, place.split_once('/')?))
        });
        let ((user, password), (address, vhost)) = parts.unwrap_or_else(|| panic!("not an AMQP URL: {url}"));
        let socket = TcpStream::connect(address).unwrap_or_else(|e| panic!("cannot connect to {url}: {e}"));
        socket.set_nodelay(true).expect("TCP_NODELAY");
        let mut link = Self { socket, received: Received::new() };

        link.write(b"AMQP\x00\x00\x09\x01");
        link.wait_for((10, 10));
        link.send(0, (10, 11), |out| put_login(out, user, password));
        link.wait_for((10, 30));
        link.send(0, (10, 31), |out| {
            out.extend(CHANNEL.to_be_bytes()); // channel-max
            out.extend(FRAME_MAX_BYTES.to_be_bytes());
            out.extend([0, 0]); // no heartbeats
        });
        link.call(0, (10, 40), |out| {
            put_short_string(out, vhost);
            out.extend([0, 0]);
        });
        link.call(CHANNEL, (20, 10), |out| out.push(0));
        link
    }

    /// Declares exchange and queue, and binds them.
    pub(crate) fn declare(&mut self, queue: &Queue) {
        /// Bit of the flags.
        const DURABLE: u8 = 0b10;
        self.call(CHANNEL, (40, 10), |out| {
            out.extend([0, 0]);
            put_short_string(out, &queue.exchange);
            put_short_string(out, "topic");
            out.push(DURABLE);
            put_sized(out, |_| ());
        });
        self.call(CHANNEL, (50, 10), |out| {
            out.extend([0, 0]);
            put_short_string(out, &queue.name);
            out.push(DURABLE);
            put_sized(out, |out| put_text_field(out, "x-queue-type", &queue.kind.to_string()));
        });
        self.call(CHANNEL, (50, 20), |out| {
            out.extend([0, 0]);
            for text in [&queue.name, &queue.exchange, &queue.binding] {
                put_short_string(out, text);
            }
            out.push(0);
            put_sized(out, |_| ());
        });
    }

    /// How many messages are in a queue that exists.
    pub(crate) fn messages(&mut self, queue: &Queue) -> u64 {
        /// Bit of the flags.
        const PASSIVE: u8 = 0b1;
        let answer = self.call(CHANNEL, (50, 10), |out| {
            out.extend([0, 0]);
            put_short_string(out, &queue.name);
            out.push(PASSIVE);
            put_sized(out, |_| ());
        });
        let mut reader = Reader(&answer);
        let name = reader.u8();
        reader.take(name.into());
        reader.u32().into()
    }

    /// Deletes a queue with what is in it, and waits until it is gone.
    pub(crate) fn delete(&mut self, queue: &Queue) {
        self.call(CHANNEL, (50, 40), |out| {
            out.extend([0, 0]);
            put_short_string(out, &queue.name);
            out.push(0); // whether it is used or empty does not matter
        });
    }

    /// Sends a method and waits for its `-ok`, which has the next number. Returns the arguments of that.
    pub(super) fn call(&mut self, channel: u16, method: Method, arguments: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        self.send(channel, method, arguments);
        self.wait_for((method.0, method.1 + 1))
    }

    pub(super) fn send(&mut self, channel: u16, method: Method, arguments: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        put_method(&mut out, channel, method, arguments);
        self.write(&out);
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap_or_else(|e| panic!("writing to RabbitMQ: {e}"));
    }

    /// Waits for more bytes.
    pub(super) fn read(&mut self) {
        let length = self.received.read(&mut self.socket).unwrap_or_else(|e| panic!("reading from RabbitMQ: {e}"));
        assert!(length > 0, "RabbitMQ has closed the connection");
    }

    /// Returns the arguments.
    fn wait_for(&mut self, expected: Method) -> Vec<u8> {
        loop {
            if let Some((kind, payload)) = self.received.next_frame() {
                let mut reader = Reader(payload);
                if kind == METHOD {
                    let method = reader.method();
                    let rest = String::from_utf8_lossy(reader.0);
                    assert_eq!(method, expected, "RabbitMQ answers with another method: {rest}");
                    return reader.0.to_vec();
                }
            } else {
                self.read();
            }
        }
    }
}

fn put_login(out: &mut Vec<u8>, user: &str, password: &str) {
    /// What RabbitMQ does only for a client that says so: <https://www.rabbitmq.com/docs/connections#capabilities>.
    const CAPABILITIES: [&str; 2] = ["basic.nack", "publisher_confirms"];
    put_sized(out, |out| {
        put_short_string(out, "capabilities");
        out.push(b'F');
        put_sized(out, |out| {
            for capability in CAPABILITIES {
                put_short_string(out, capability);
                out.extend(b"t\x01");
            }
        });
    });
    put_short_string(out, "PLAIN");
    put_sized(out, |out| out.extend(format!("\0{user}\0{password}").as_bytes()));
    put_short_string(out, "en_US");
}
