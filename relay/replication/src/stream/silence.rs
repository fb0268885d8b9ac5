//! Notices a server that says nothing any more, although the connection stands: it is frozen, or something on the way swallows what it says.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A server that has said nothing for so long is asked for a keepalive, which it sends at once.
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// A server that has said nothing for so long is given up. As long as PostgreSQL's own receivers wait, by default
/// (<https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-WAL-RECEIVER-TIMEOUT>).
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// For how long the server has been silent. Time counts only while somebody listens.
#[derive(Debug)]
pub(super) struct Silence {
    heard: Instant,
    /// When the server was asked; `None`: it has said something since.
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Ask,
    GiveUp,
}

impl Silence {
    /// Something was said just now.
    pub(super) fn new() -> Self {
        let heard = Instant::now();
        Self { heard, asked: None, timer: Box::pin(sleep_until(heard + ASKED_AFTER)) }
    }

    /// The server has said something. Seldom costs a timer: the one that runs finds out when it ends.
    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
        if self.asked.take().is_some() {
            self.timer.as_mut().reset(self.heard + ASKED_AFTER);
        }
    }

    /// Since when the server has said nothing, if it has not answered the question either.
    pub(super) fn since(&self) -> Option<Instant> {
        self.asked.map(|_| self.heard)
    }

    /// Waits until something is to be done. To be polled when nothing has come: what came meanwhile breaks the silence.
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
