//! The caller's side of the producer.

use std::{fmt, net::SocketAddr};

use client_socket::{Expiry, Host, Socket};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel, error::TrySendError},
    task::JoinSet,
};

use super::{
    confirm::Confirm,
    task::{Confirmed, Handed, Task},
};
use crate::{
    config::ProduceConfig,
    connect::{
        control::Control,
        error::{ConnectError, KafkaError},
    },
    consume::{
        read_back::{ReadBack, TopicRead, Wanted},
        reader::From,
    },
    record::message::Outgoing,
};

/// Most batches of records on their way to the task, and topics to be read back.
const BATCHES: usize = 16_384;

/// A producer of records for the topics of a cluster. Dropping it ends its connections at once.
pub struct Producer<M: Outgoing> {
    batches: Sender<Handed<M>>,
    confirmed: Receiver<Confirmed>,
    wanted: Sender<Wanted>,
    reads: Receiver<TopicRead<M::Mark>>,
    /// What the task begins with; `None`: it has begun.
    waiting: Option<Waiting<M>>,
    /// The one task that owns the connections.
    task: JoinSet<Result<(), KafkaError>>,
    peer: Host,
    address: Option<SocketAddr>,
    expiry: Expiry,
    /// How many refusals the caller has been told.
    known: u64,
}

struct Waiting<M: Outgoing> {
    config: ProduceConfig,
    control: Control,
    handed: Receiver<Handed<M>>,
    confirmed: Sender<Confirmed>,
    topics: Receiver<Wanted>,
    found: Sender<TopicRead<M::Mark>>,
}

impl<M: Outgoing> Waiting<M> {
    /// Takes the producer's id, and works until the caller is gone or the producer has to end.
    async fn run(self, name: Option<String>) -> Result<(), KafkaError> {
        let Self { config, mut control, handed, confirmed, topics, found } = self;
        let (id, nameless) = control.producer_id(name.as_deref()).await?;
        let name = match nameless {
            Some(why) => Err(why.to_string()),
            None => name.ok_or_else(String::new),
        };
        let read_back = ReadBack::<M>::new(config.clone(), id, name, found);
        tokio::select! {
            ended = Task::new(config, id).run(control, handed, confirmed) => ended,
            Err(error) = read_back.run(topics) => Err(error),
        }
    }
}

impl<M: Outgoing> fmt::Debug for Producer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// News of a producer, with what is kept of records that are read back.
#[derive(Debug)]
pub enum News<T> {
    /// What has become of records. Those with the same key and topic are confirmed in their order.
    Confirms(Vec<Confirm>),
    /// A topic was [read back](crate::Producer::read_back).
    Read(TopicRead<T>),
    /// The producer has ended. What is not confirmed may have been written or not.
    Lost(KafkaError),
}

impl<M: Outgoing> Producer<M> {
    /// Connects to a broker of the cluster, and logs in.
    ///
    /// # Errors
    ///
    /// No host lets the producer in.
    pub async fn connect(config: ProduceConfig) -> Result<Self, ConnectError> {
        let mut control = Control::new(config.clone());
        control.connect().await.map_err(|failures| ConnectError { failures })?;
        let Some(peer) = control.peer().cloned() else { return Err(ConnectError { failures: Vec::new() }) };
        let expiry = control.socket().map(Socket::expiry).unwrap_or_default();
        let address = control.socket().and_then(Socket::peer_address);
        let (batches, handed) = channel(BATCHES);
        // One is enough: the task collects confirms until the caller has fetched the previous ones.
        let (sender, confirmed) = channel(1);
        let (wanted, topics) = channel(BATCHES);
        let (found, reads) = channel(1);
        let waiting = Some(Waiting { config, control, handed, confirmed: sender, topics, found });
        Ok(Self { batches, confirmed, wanted, reads, waiting, task: JoinSet::new(), peer, address, expiry, known: 0 })
    }

    /// Begins to work as the one producer of this name: its earlier ones are shut out of a topic when it is
    /// [read back](Self::read_back). The cluster keeps the id of the name, and counts its epoch up at each beginning.
    /// The user needs the right WRITE on this transactional id. `None`, or without the right: the producer has an id of
    /// its own. The first records begin without a name. Only the first beginning counts.
    pub fn begin(&mut self, name: Option<String>) {
        if let Some(waiting) = self.waiting.take() {
            self.task.spawn(waiting.run(name));
        }
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

    /// Reads what earlier producers have written into a topic, from there on, once none of them can write there any
    /// more. [`News::Read`] brings the answer. Never waits. Records of the topic are to be handed over after the
    /// answer: what this producer writes meanwhile may be among those that are found.
    pub fn read_back(&mut self, topic: &str, from: From) {
        self.begin(None);
        if let Err(TrySendError::Full(_)) = self.wanted.try_send((topic.to_owned(), from)) {
            self.task.abort_all();
        }
    }

    /// Hands records over, to be published in order. Never waits: the caller bounds how many are unconfirmed. Records
    /// that are handed over after the producer has ended get no confirm: [`News::Lost`] says so.
    pub fn publish(&mut self, records: Vec<M>) {
        if records.is_empty() {
            return;
        }
        self.begin(None);
        match self.batches.try_send((records, self.known)) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.task.abort_all(),
        }
    }

    /// Waits for news. Cancellation-safe. After [`News::Lost`] there is none.
    pub async fn next(&mut self) -> News<M::Mark> {
        let ended = tokio::select! {
            biased;
            confirmed = self.confirmed.recv() => match confirmed {
                Some((confirms, refusals)) => {
                    self.known = refusals;
                    return News::Confirms(confirms);
                }
                None => self.task.join_next().await,
            },
            Some(read) = self.reads.recv() => return News::Read(read),
        };
        let error = match ended {
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
