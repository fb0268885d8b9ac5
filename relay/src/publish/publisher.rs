//! The caller's side of the connection.

use std::sync::Arc;

use tokio::{
    sync::mpsc::{Receiver, Sender, channel, error::TrySendError},
    task::JoinSet,
    time::timeout,
};

use super::{Notice, PublishConfig, PublishError, connection::Connection, handshake, socket, wire::SHORT_STRING_MAX};
use crate::event::Event;

/// A connection to the broker over which events are published. Dropping it ends the connection at once.
#[derive(Debug)]
pub struct Publisher {
    batches: Sender<Vec<Arc<Event>>>,
    notices: Receiver<Notice>,
    /// The one task that owns the socket.
    task: JoinSet<Result<(), PublishError>>,
}

impl Publisher {
    /// Connects, logs in, opens a channel, declares the exchange or looks whether it is there, and asks for confirms.
    pub async fn connect(config: PublishConfig) -> Result<Self, PublishError> {
        for (name, text) in [("exchange", &config.exchange), ("app_id", &config.app_id)] {
            if text.len() > SHORT_STRING_MAX {
                let reason = format!("has {} bytes, AMQP allows {SHORT_STRING_MAX}", text.len());
                return Err(PublishError::Setting { name, reason });
            }
        }
        let limit = config.url.connection_timeout.unwrap_or(config.connect_timeout);
        let opening = async { handshake::open(socket::connect(&config.url).await?, &config).await };
        let opened = timeout(limit, opening)
            .await
            .unwrap_or_else(|_| Err(PublishError::ConnectTimeout { address: config.url.address(), after: limit }))?;
        // Every batch holds at least one event, and no more than `window` events are unanswered: so there is always room.
        let (batches, batch_receiver) = channel(config.window.max(1));
        // One is enough: the task collects answers for as long as the last are not fetched.
        let (notice_sender, notices) = channel(1);
        let mut task = JoinSet::new();
        task.spawn(Connection::new(opened, config).run(batch_receiver, notice_sender));
        Ok(Self { batches, notices, task })
    }

    /// Hands events over, to be published in order. Never waits: the caller keeps at most `window` events unanswered.
    /// Events that are handed over after the connection was lost, or more than allowed, get no answer: [`Notice::Lost`]
    /// says so.
    pub fn publish(&mut self, batch: Vec<Arc<Event>>) {
        if batch.is_empty() {
            return;
        }
        match self.batches.try_send(batch) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.task.abort_all(),
        }
    }

    /// Waits for news. Cancellation-safe. After [`Notice::Lost`] there is none.
    pub async fn next(&mut self) -> Notice {
        if let Some(notice) = self.notices.recv().await {
            return notice;
        }
        let error = match self.task.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => PublishError::Protocol("the connection was closed".to_owned()),
            Some(Err(ended)) if ended.is_cancelled() => {
                PublishError::Protocol("more events were handed over than the window allows".to_owned())
            }
            Some(Err(ended)) => PublishError::Protocol(format!("the connection's task failed: {ended}")),
            None => return std::future::pending().await,
        };
        Notice::Lost(error)
    }

    /// Says goodbye to the broker; takes a second at most. Answers that have not been fetched are lost.
    pub async fn close(self) {
        let Self { batches, notices, mut task } = self;
        drop((batches, notices));
        task.join_next().await;
    }
}
