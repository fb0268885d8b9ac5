//! The task that owns the socket.
//!
//! One loop reads, writes, takes messages and hands out news, and waits for none of them alone: a broker that does not
//! read delays no confirm, and a caller that does not listen delays no heartbeat. Every buffer is bounded: output by
//! [`Channel::fill`], input by the size of a frame, and confirms by the number of unconfirmed messages.

use std::{
    io,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use client_socket::Socket;
use tokio::{
    io::{AsyncReadExt, ReadHalf},
    sync::mpsc::{Receiver, Sender},
    time::{MissedTickBehavior, interval, sleep_until, timeout},
};

use super::{
    beside::Beside, channel::Channel, config::PublishConfig, confirm::News, encoder::Encoder, message::Outgoing,
};
use crate::{
    connect::{CLOSE_PATIENCE, error::AmqpError, handshake::Opened, liveness::Liveness, writer::Writer},
    protocol::{
        frame::next_frame,
        method::{self, CHANNEL},
        wire::{HEARTBEAT, put_frame},
    },
};

/// Room for one read: some 3,000 acks of 21 bytes.
const READ_BYTES: usize = 64 * 1024;

/// What the caller has handed over.
pub(crate) enum Handed<M> {
    /// For the main channel.
    Batch(Vec<M>),
    /// For a side channel.
    Beside(M),
}

pub(crate) struct Connection<M> {
    reader: ReadHalf<Socket>,
    writer: Writer,
    received: BytesMut,
    frame_max: usize,
    liveness: Liveness,
    channel: Channel<M>,
    beside: Beside<M>,
    /// How long the broker may need to count a closed channel off.
    reopen_after: Duration,
    /// When the channels that the broker has closed are opened again.
    reopen_at: Option<Instant>,
}

impl<M: Outgoing> Connection<M> {
    pub(crate) fn new(opened: Opened, config: PublishConfig) -> Self {
        let (reader, writer) = tokio::io::split(opened.socket);
        let (exchange, app_id) = (config.exchange, config.app_id);
        let encoder = Encoder::new(CHANNEL, exchange.clone(), app_id.clone(), opened.frame_max);
        Self {
            reader,
            writer: Writer::new(writer),
            received: opened.received,
            frame_max: opened.frame_max,
            liveness: Liveness::new(opened.heartbeat, config.confirm_timeout, Instant::now()),
            channel: Channel::new(exchange.clone(), encoder, config.window),
            beside: Beside::new(opened.side_channels, exchange, app_id, opened.frame_max),
            reopen_after: config.reopen_after,
            reopen_at: None,
        }
    }

    /// Publishes what comes from `batches` until that ends, or the connection does.
    pub(crate) async fn run(mut self, mut batches: Receiver<Handed<M>>, news: Sender<News>) -> Result<(), AmqpError> {
        let ended = self.publish(&mut batches, &news).await;
        if ended.is_err() {
            // The confirms that came before the end are certain all the same.
            while let Some(latest) = self.channel.take_news() {
                let _ = news.send(latest).await;
            }
        }
        drop(news);
        let farewell = async {
            match &ended {
                Ok(()) => self.close().await,
                Err(AmqpError::ConnectionClosed { .. } | AmqpError::ChannelLimit(_)) => {
                    self.writer.finish(&mut self.channel.out).await
                }
                Err(_) => Ok(()),
            }
        };
        let _ = timeout(CLOSE_PATIENCE, farewell).await;
        ended
    }

    async fn publish(&mut self, batches: &mut Receiver<Handed<M>>, news: &Sender<News>) -> Result<(), AmqpError> {
        self.take_frames()?;
        let mut check = interval(self.liveness.period());
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.fill();
            let waits_to_reopen = self.channel.waits_to_reopen() || self.beside.waits_to_reopen();
            if self.reopen_at.is_none() && waits_to_reopen && self.writer.is_idle(&self.channel.out) {
                self.reopen_at = Some(Instant::now() + self.reopen_after);
            }
            self.received.reserve(READ_BYTES);
            // In order of priority: what ends waiting comes before what begins it.
            tokio::select! { biased;
                _ = check.tick() => self.check()?,
                read = self.reader.read_buf(&mut self.received) => {
                    if read.map_err(AmqpError::Disconnected)? == 0 {
                        return Err(AmqpError::Disconnected(io::ErrorKind::UnexpectedEof.into()));
                    }
                    self.liveness.read(Instant::now());
                    self.take_frames()?;
                }
                () = reopening(self.reopen_at), if self.reopen_at.is_some() => {
                    self.reopen_at = None;
                    if self.channel.waits_to_reopen() {
                        self.channel.reopen();
                    }
                    self.beside.reopen();
                }
                permit = news.reserve(), if self.channel.has_news() => {
                    if let (Ok(permit), Some(latest)) = (permit, self.channel.take_news()) {
                        permit.send(latest);
                    }
                }
                wrote = self.writer.step(&mut self.channel.out), if !self.writer.is_idle(&self.channel.out) => {
                    wrote.map_err(AmqpError::Disconnected)?;
                    self.liveness.wrote(Instant::now());
                }
                batch = batches.recv() => {
                    let Some(batch) = batch else { return Ok(()) };
                    if self.channel.unconfirmed() == 0 {
                        self.liveness.progressed(Instant::now());
                    }
                    self.accept(batch);
                    while let Ok(batch) = batches.try_recv() {
                        self.accept(batch);
                    }
                }
            }
        }
    }

    fn accept(&mut self, handed: Handed<M>) {
        match handed {
            Handed::Batch(batch) => self.channel.accept(batch),
            Handed::Beside(message) => {
                if let Err(message) = self.beside.accept(message, Instant::now()) {
                    self.channel.accept(vec![message]);
                }
            }
        }
    }

    /// Side channels go first: each has one message, while the main channel may have more than fits.
    fn fill(&mut self) {
        if !self.channel.is_blocked() {
            self.beside.fill(&mut self.channel.out);
            self.beside.take_confirms(&mut self.channel.confirms);
        }
        self.channel.fill();
    }

    fn take_frames(&mut self) -> Result<(), AmqpError> {
        let before = self.channel.unconfirmed();
        while let Some(frame) = next_frame(&mut self.received, self.frame_max)? {
            if frame.channel > CHANNEL {
                self.beside.receive(frame, Instant::now(), &mut self.channel.confirms)?;
            } else {
                self.channel.receive(frame)?;
            }
        }
        if self.channel.unconfirmed() < before {
            self.liveness.progressed(Instant::now());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), AmqpError> {
        let now = Instant::now();
        if self.channel.is_blocked() {
            self.liveness.progressed(now);
        }
        self.beside.check(self.channel.is_blocked(), now)?;
        let heartbeat_due = self.liveness.check(self.channel.unconfirmed(), now)?;
        // Bytes that wait to be written are as good a sign of life.
        if heartbeat_due && self.channel.out.is_empty() {
            put_frame(self.channel.out.buffer(), HEARTBEAT, 0, |_| ());
        }
        Ok(())
    }

    /// Says goodbye and waits for the broker's goodbye, so that nothing sent before it is lost with the socket.
    async fn close(&mut self) -> io::Result<()> {
        method::connection_close(self.channel.out.buffer());
        self.writer.finish(&mut self.channel.out).await?;
        while !self.channel.closed && self.reader.read_buf(&mut self.received).await? > 0 {
            if self.take_frames().is_err() {
                break;
            }
        }
        self.writer.shutdown().await
    }
}

/// Waits until channels are to be opened again. The clock is read only when this is polled: the loop turns for each few
/// messages, and hardly ever waits for this.
async fn reopening(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
