//! Notices a server that falls silent although the connection stands: it is frozen, or a device on the way drops its
//! bytes.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// How long a server may be silent before it is asked for a keepalive, which it sends at once.
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// How long a server may be silent before it is given up: PostgreSQL's own receivers have the same default
/// (<https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-WAL-RECEIVER-TIMEOUT>).
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// How long the server has been silent. Time counts only while somebody listens.
#[derive(Debug)]
pub(super) struct Silence {
    heard: Instant,
    /// When the server was asked for a keepalive; `None`: it has sent something since.
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// What to do about the silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Ask,
    GiveUp,
}

impl Silence {
    /// A server that has just been heard.
    pub(super) fn new() -> Self {
        let heard = Instant::now();
        Self { heard, asked: None, timer: Box::pin(sleep_until(heard + ASKED_AFTER)) }
    }

    /// The server has been heard. This seldom costs a timer, because the running timer takes it into account when it
    /// ends.
    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
        if self.asked.take().is_some() {
            self.timer.as_mut().reset(self.heard + ASKED_AFTER);
        }
    }

    /// Since when the server has been silent, if it has not answered the question either.
    pub(super) fn since(&self) -> Option<Instant> {
        self.asked.map(|_| self.heard)
    }

    /// Waits until the silence calls for something. Poll it when nothing has come: bytes that came meanwhile break the
    /// silence.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            let due = self.asked.map_or(self.heard + ASKED_AFTER, |asked| asked + (LIMIT - ASKED_AFTER));
            if now < due {
                self.timer.as_mut().reset(due);
                continue;
            }
            if self.asked.is_some() {
                return Poll::Ready(Due::GiveUp);
            }
            self.asked = Some(now);
            self.timer.as_mut().reset(now + (LIMIT - ASKED_AFTER));
            return Poll::Ready(Due::Ask);
        }
    }
}
