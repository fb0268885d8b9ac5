//! The task that owns the socket.
//!
//! One loop reads, writes, takes messages and hands out answers, and waits for none of them alone: a broker that does not
//! read stops no answer, and a caller that does not listen stops no heartbeat. Every buffer is bounded: what is written
//! by [`Channel::fill`], what is read by the size of a frame, and answers by the number of unanswered messages.

use std::{
    io,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use client_socket::Socket;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc::{Receiver, Sender},
    time::{MissedTickBehavior, interval, sleep_until, timeout},
};

use crate::{
    Notice, Outgoing, PublishConfig, PublishError,
    beside::Beside,
    channel::Channel,
    encoder::Encoder,
    frame::next_frame,
    handshake::Opened,
    liveness::Liveness,
    method::{self, CHANNEL},
    output::Output,
    publisher::Handed,
    wire::{HEARTBEAT, put_frame},
};

/// Room for one read: some 3,000 acks of 21 bytes.
const READ_BYTES: usize = 64 * 1024;

/// How long the broker may take to say goodbye.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Connection<M> {
    reader: ReadHalf<Socket>,
    writer: WriteHalf<Socket>,
    received: BytesMut,
    frame_max: usize,
    liveness: Liveness,
    channel: Channel<M>,
    beside: Beside<M>,
    /// Bytes were given to the writer that it may not have given to the network.
    unflushed: bool,
    /// How long the broker may need to count a closed channel off.
    reopen_after: Duration,
    /// When channels are opened again that the broker has closed.
    reopen_at: Option<Instant>,
}

impl<M: Outgoing> Connection<M> {
    pub(crate) fn new(opened: Opened, config: PublishConfig) -> Self {
        let (reader, writer) = tokio::io::split(opened.socket);
        let (exchange, app_id) = (config.exchange, config.app_id);
        let encoder = Encoder::new(CHANNEL, exchange.clone(), app_id.clone(), opened.frame_max);
        Self {
            reader,
            writer,
            received: opened.received,
            frame_max: opened.frame_max,
            liveness: Liveness::new(opened.heartbeat, config.confirm_timeout, Instant::now()),
            channel: Channel::new(exchange.clone(), encoder, config.window),
            beside: Beside::new(opened.side_channels, exchange, app_id, opened.frame_max),
            unflushed: false,
            reopen_after: config.reopen_after,
            reopen_at: None,
        }
    }

    /// Publishes what comes from `batches` until that ends, or the connection does.
    pub(crate) async fn run(
        mut self,
        mut batches: Receiver<Handed<M>>,
        notices: Sender<Notice>,
    ) -> Result<(), PublishError> {
        let ended = self.publish(&mut batches, &notices).await;
        if ended.is_err() {
            // The answers that were certain before it happened.
            while let Some(news) = self.channel.take_news() {
                let _ = notices.send(news).await;
            }
        }
        drop(notices);
        let farewell = async {
            match &ended {
                Ok(()) => self.close().await,
                Err(PublishError::ConnectionClosed { .. } | PublishError::ChannelLimit(_)) => {
                    self.writer.write_all_buf(&mut self.channel.out).await
                }
                Err(_) => Ok(()),
            }
        };
        let _ = timeout(CLOSE_PATIENCE, farewell).await;
        ended
    }

    async fn publish(
        &mut self,
        batches: &mut Receiver<Handed<M>>,
        notices: &Sender<Notice>,
    ) -> Result<(), PublishError> {
        self.take_frames()?;
        let mut check = interval(self.liveness.period());
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.fill();
            let waits_to_reopen = self.channel.waits_to_reopen() || self.beside.waits_to_reopen();
            if self.reopen_at.is_none() && waits_to_reopen && self.channel.out.is_empty() && !self.unflushed {
                self.reopen_at = Some(Instant::now() + self.reopen_after);
            }
            self.received.reserve(READ_BYTES);
            // In order of priority: what ends waiting comes before what begins it.
            tokio::select! { biased;
                _ = check.tick() => self.check()?,
                read = self.reader.read_buf(&mut self.received) => {
                    if read.map_err(PublishError::Disconnected)? == 0 {
                        return Err(PublishError::Disconnected(io::ErrorKind::UnexpectedEof.into()));
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
                permit = notices.reserve(), if self.channel.has_news() => {
                    if let (Ok(permit), Some(news)) = (permit, self.channel.take_news()) {
                        permit.send(news);
                    }
                }
                unflushed = write(&mut self.writer, &mut self.channel.out),
                    if self.unflushed || self.channel.out.has_remaining() =>
                {
                    self.unflushed = unflushed.map_err(PublishError::Disconnected)?;
                    self.liveness.wrote(Instant::now());
                }
                batch = batches.recv() => {
                    let Some(batch) = batch else { return Ok(()) };
                    if self.channel.unanswered() == 0 {
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

    /// Side channels first: each has one message; the main channel may have more than fits.
    fn fill(&mut self) {
        if !self.channel.is_blocked() {
            self.beside.fill(&mut self.channel.out);
            self.beside.take_answers(&mut self.channel.answers);
        }
        self.channel.fill();
    }

    fn take_frames(&mut self) -> Result<(), PublishError> {
        let before = self.channel.unanswered();
        while let Some(frame) = next_frame(&mut self.received, self.frame_max)
            .map_err(|malformed| PublishError::Protocol(malformed.to_string()))?
        {
            if frame.channel > CHANNEL {
                self.beside.receive(frame, Instant::now(), &mut self.channel.answers)?;
            } else {
                self.channel.receive(frame)?;
            }
        }
        if self.channel.unanswered() < before {
            self.liveness.progressed(Instant::now());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), PublishError> {
        let now = Instant::now();
        if self.channel.is_blocked() {
            self.liveness.progressed(now);
        }
        self.beside.check(self.channel.is_blocked(), now)?;
        let heartbeat_due = self.liveness.check(self.channel.unanswered(), now)?;
        // What waits to be written is as good a sign of life.
        if heartbeat_due && self.channel.out.is_empty() {
            put_frame(self.channel.out.buffer(), HEARTBEAT, 0, |_| ());
        }
        Ok(())
    }

    /// Says goodbye and waits for the answer, so that nothing sent before it is lost with the socket.
    async fn close(&mut self) -> io::Result<()> {
        method::connection_close(self.channel.out.buffer());
        self.writer.write_all_buf(&mut self.channel.out).await?;
        self.writer.flush().await?;
        while !self.channel.closed && self.reader.read_buf(&mut self.received).await? > 0 {
            if self.take_frames().is_err() {
                break;
            }
        }
        self.writer.shutdown().await
    }
}

/// Waits until channels are to be opened again. The clock is not asked before this is polled: the loop turns for each
/// few messages, and hardly ever waits for this.
async fn reopening(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Gives the writer what it takes, or flushes it when it has everything. Returns whether it may still hold something
/// back. Cancellation-safe: each way is one step, which has happened or has not.
async fn write(writer: &mut WriteHalf<Socket>, out: &mut Output) -> io::Result<bool> {
    if !out.has_remaining() {
        writer.flush().await?;
        return Ok(false);
    }
    match writer.write_buf(out).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(true),
    }
}
