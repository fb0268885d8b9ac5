//! The caller's side of the producer.

use std::{fmt, net::SocketAddr};

use client_socket::{Expiry, Host, Socket};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel, error::TrySendError},
    task::JoinSet,
};

use super::{
    confirm::News,
    task::{Confirmed, Handed, Task},
};
use crate::{
    config::ProduceConfig,
    connect::{control::Control, error::KafkaError},
    record::message::Outgoing,
};

/// Most batches of records on their way to the task.
const BATCHES: usize = 16_384;

/// A producer of records for the topics of a cluster. Dropping it ends its connections at once.
pub struct Producer<M> {
    batches: Sender<Handed<M>>,
    confirmed: Receiver<Confirmed>,
    /// The one task that owns the connections.
    task: JoinSet<Result<(), KafkaError>>,
    peer: Host,
    address: Option<SocketAddr>,
    expiry: Expiry,
    id: (i64, i16),
    /// How many refusals the caller has been told.
    known: u64,
}

impl<M> fmt::Debug for Producer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("peer", &self.peer).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why no broker of a cluster could be connected to: each host that was tried, with its error.
#[derive(Debug)]
pub struct ConnectError {
    /// The hosts, with their errors.
    pub failures: Vec<(Host, KafkaError)>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (host, error)) in self.failures.iter().enumerate() {
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{host}: {error}")?;
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

impl ConnectError {
    /// Whether the error may go away by itself: at some host it may.
    pub fn is_transient(&self) -> bool {
        !self.is_login() && self.failures.iter().any(|(_, error)| error.is_transient())
    }

    /// Whether a broker does not let the user in.
    pub fn is_login(&self) -> bool {
        let is_login =
            |error: &KafkaError| matches!(error, KafkaError::Authentication(_) | KafkaError::Mechanism { .. });
        self.failures.iter().any(|(_, error)| is_login(error))
    }
}

impl<M: Outgoing> Producer<M> {
    /// Connects to a broker of the cluster, logs in, and takes the producer's id.
    ///
    /// # Errors
    ///
    /// No host lets the producer in, or gives it an id.
    pub async fn connect(config: ProduceConfig) -> Result<Self, ConnectError> {
        let mut control = Control::new(config.clone());
        control.connect().await.map_err(|failures| ConnectError { failures })?;
        let first = control.peer().cloned();
        let failed = |error| ConnectError { failures: first.iter().cloned().zip([error]).collect() };
        let id = match control.producer_id().await {
            Ok(id) => id,
            Err(error) => return Err(failed(error)),
        };
        let Some(peer) = control.peer().cloned() else { return Err(failed(KafkaError::HungUp)) };
        let expiry = control.socket().map(Socket::expiry).unwrap_or_default();
        let address = control.socket().and_then(Socket::peer_address);
        let (batches, handed) = channel(BATCHES);
        // One is enough: the task collects confirms until the caller has fetched the previous ones.
        let (sender, confirmed) = channel(1);
        let mut task = JoinSet::new();
        task.spawn(Task::new(config, id).run(control, handed, sender));
        Ok(Self { batches, confirmed, task, peer, address, expiry, id: (id.id, id.epoch), known: 0 })
    }

    /// The broker that the producer first connected to.
    pub fn peer(&self) -> &Host {
        &self.peer
    }

    /// That broker's address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Until when the certificates of that connection are valid.
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// The producer's id and epoch.
    pub fn id(&self) -> (i64, i16) {
        self.id
    }

    /// Hands records over, to be published in order. Never waits: the caller bounds how many are unconfirmed. Records
    /// that are handed over after the producer has ended get no confirm: [`News::Lost`] says so.
    pub fn publish(&mut self, records: Vec<M>) {
        if records.is_empty() {
            return;
        }
        match self.batches.try_send((records, self.known)) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.task.abort_all(),
        }
    }

    /// Waits for news. Cancellation-safe. After [`News::Lost`] there is none.
    pub async fn next(&mut self) -> News {
        if let Some((confirms, refusals)) = self.confirmed.recv().await {
            self.known = refusals;
            return News::Confirms(confirms);
        }
        let error = match self.task.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => KafkaError::Protocol("the producer was closed".to_owned()),
            Some(Err(ended)) if ended.is_cancelled() => {
                KafkaError::Protocol("too many batches of records are unconfirmed".to_owned())
            }
            Some(Err(ended)) => KafkaError::Protocol(format!("the producer's task failed: {ended}")),
            None => return std::future::pending().await,
        };
        News::Lost(error)
    }
}
