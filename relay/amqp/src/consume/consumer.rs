//! The consumer's connection. The caller drives it: there is no task behind it.

use std::{fmt, io, time::Instant};

use bytes::{BufMut, BytesMut};
use client_socket::Socket;
use tokio::{
    io::{AsyncReadExt, ReadHalf},
    time::{Interval, MissedTickBehavior, interval, timeout},
};

use super::{
    config::ConsumeConfig,
    delivery::Delivery,
    inbox::{Inbox, Incoming},
    opening,
};
use crate::{
    connect::{
        CLOSE_PATIENCE,
        connect_error::{ConnectError, check_lengths},
        dial::{Peer, open_any},
        error::AmqpError,
        liveness::{Liveness, NOTHING_TO_CONFIRM},
        writer::Writer,
    },
    protocol::{
        frame::take_frame,
        method::{self, BASIC, CHANNEL, put_method},
        output::Output,
        wire::{HEARTBEAT, put_frame},
    },
};

/// Room for one read, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// A connection over which messages are consumed as they pass an exchange, through a queue of its own.
///
/// The queue is exclusive and is deleted with its connection. While the consumer is slow the broker drops the queue's
/// oldest messages, so that nobody else is slowed down. The broker takes a consumer for dead that neither waits in
/// [`next`](Self::next) nor in [`keep_alive`](Self::keep_alive).
pub struct Consumer {
    reader: ReadHalf<Socket>,
    writer: Writer,
    received: BytesMut,
    out: Output,
    frame_max: usize,
    liveness: Liveness,
    check: Interval,
    inbox: Inbox,
    peer: Peer,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Consumer {
    /// Connects, logs in, declares the queue, binds it to the exchange and begins to consume. Tries the hosts of the
    /// URL as [`Publisher::connect`](crate::Publisher::connect) does.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(config: &ConsumeConfig) -> Result<Self, ConnectError> {
        let bindings = config.bindings.iter().map(|binding| ("bindings", binding.as_str()));
        let names = [("exchange", config.exchange.as_str()), ("queue", &config.queue)];
        check_lengths(&config.url, names.into_iter().chain(bindings))?;
        let limit = config.url.connection_timeout.unwrap_or(config.connect_timeout);
        let open = |peer| opening::open(config, peer);
        let (opened, peer) = open_any(&config.url.hosts, None, None, limit, open).await?;
        let (reader, writer) = tokio::io::split(opened.socket);
        let liveness = Liveness::new(opened.heartbeat, NOTHING_TO_CONFIRM, Instant::now());
        let mut check = interval(liveness.period());
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            reader,
            writer: Writer::new(writer),
            received: opened.received,
            out: Output::default(),
            frame_max: opened.frame_max,
            liveness,
            check,
            inbox: Inbox::default(),
            peer,
        })
    }

    /// The node at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Waits for the next message. Cancellation-safe.
    ///
    /// # Errors
    ///
    /// The connection or the queue is gone. No further message comes.
    pub async fn next(&mut self) -> Result<Delivery, AmqpError> {
        loop {
            if let Some(delivery) = self.inbox.pop() {
                return Ok(delivery);
            }
            self.step().await?;
        }
    }

    /// Sends heartbeats and receives messages ahead, for as long as the caller is busy with something else. Ends only
    /// with an error, as [`next`](Self::next) does. Cancellation-safe.
    pub async fn keep_alive(&mut self) -> AmqpError {
        loop {
            if let Err(error) = self.step().await {
                return error;
            }
        }
    }

    /// Acknowledges the message with this tag. The ack leaves with the next call.
    pub fn ack(&mut self, tag: u64) {
        put_method(self.out.buffer(), CHANNEL, (BASIC, 80), |out| {
            out.put_u64(tag);
            out.put_u8(0); // this message only
        });
    }

    /// Says goodbye to the broker; takes a second at most.
    pub async fn close(mut self) {
        method::connection_close(self.out.buffer());
        let goodbye = async {
            self.writer.finish(&mut self.out).await.map_err(AmqpError::Disconnected)?;
            while !self.inbox.closed {
                self.step().await?;
            }
            self.writer.shutdown().await.map_err(AmqpError::Disconnected)
        };
        let _ = timeout(CLOSE_PATIENCE, goodbye).await;
    }

    /// Does whatever comes first: a check of the heartbeats, a read or a write.
    async fn step(&mut self) -> Result<(), AmqpError> {
        self.received.reserve(READ_BYTES);
        tokio::select! { biased;
            _ = self.check.tick() => {
                if self.liveness.check(0, Instant::now())? && self.out.is_empty() {
                    put_frame(self.out.buffer(), HEARTBEAT, 0, |_| ());
                }
            }
            read = self.reader.read_buf(&mut self.received) => {
                if read.map_err(AmqpError::Disconnected)? == 0 {
                    return Err(AmqpError::Disconnected(io::ErrorKind::UnexpectedEof.into()));
                }
                self.liveness.read(Instant::now());
            }
            wrote = self.writer.step(&mut self.out), if !self.writer.is_idle(&self.out) => {
                wrote.map_err(AmqpError::Disconnected)?;
                self.liveness.wrote(Instant::now());
            }
        }
        // The first step's tick is due at once, so messages that came with the handshake do not wait for a read.
        let taken = self.take_frames();
        if taken.is_err() {
            // A broker that closes waits for its answer.
            let _ = timeout(CLOSE_PATIENCE, self.writer.finish(&mut self.out)).await;
        }
        taken
    }

    fn take_frames(&mut self) -> Result<(), AmqpError> {
        while let Some(frame) = take_frame(&mut self.received, self.frame_max, Incoming::read)? {
            self.inbox.receive(frame, &mut self.out)?;
        }
        Ok(())
    }
}
