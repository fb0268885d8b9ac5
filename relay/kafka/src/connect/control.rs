//! What is asked of the cluster beside the records: which brokers and topics there are, and the producer's id. It has a
//! connection of its own, since a broker answers nothing else on one where a batch waits for replicas.

use std::time::{Duration, Instant};

use super::{
    channel::Channel,
    error::KafkaError,
    first::open_first,
    open::{check, open, refused},
};
use crate::{
    config::ProduceConfig,
    record::batch::ProducerId,
    wire::{
        codes,
        requests::{self, FindCoordinator, InitProducerId, Request, TopicAnswer},
    },
};
use client_socket::{Host, Socket};

/// How often a producer id is asked for while the brokers load what they know of such ids, and the pause between.
const MOST_TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// How long the id of a name is asked for.
const NAME_LIMIT: Duration = Duration::from_secs(5);

/// What the cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) brokers: Vec<(i32, Host)>,
    pub(crate) topics: Vec<TopicMetadata>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicMetadata {
    pub(crate) name: String,
    /// 0, or why nothing more is known.
    pub(crate) code: i16,
    /// The leader of each partition; `None`: it has none.
    pub(crate) leaders: Vec<Option<i32>>,
}

/// The connection for questions.
#[derive(Debug)]
pub(crate) struct Control {
    config: ProduceConfig,
    channel: Option<(Channel, Host)>,
    /// The brokers that the cluster has named.
    known: Vec<Host>,
}

impl Control {
    pub(crate) fn new(config: ProduceConfig) -> Self {
        Self { config, channel: None, known: Vec::new() }
    }

    /// The broker that answers.
    pub(crate) fn peer(&self) -> Option<&Host> {
        self.channel.as_ref().map(|(_, host)| host)
    }

    /// The connection's socket.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        self.channel.as_ref().map(|(channel, _)| &channel.socket)
    }

    /// Connects to any broker.
    ///
    /// # Errors
    ///
    /// Each host that was tried, with its error.
    pub(crate) async fn connect(&mut self) -> Result<(), Vec<(Host, KafkaError)>> {
        let mut hosts = self.known.clone();
        fastrand::shuffle(&mut hosts);
        let mut configured = self.config.url.now().hosts;
        fastrand::shuffle(&mut configured);
        hosts.extend(configured.into_iter().filter(|host| !self.known.contains(host)));
        self.channel = Some(open_first(&self.config, hosts).await?);
        Ok(())
    }

    /// Asks for the brokers and these topics; creates none.
    pub(crate) async fn metadata(&mut self, topics: &[String]) -> Result<Metadata, KafkaError> {
        let answer = self.ask(&requests::Metadata { topics, rights: false }).await?;
        let broker = |(id, name, port)| (id, Host { name, port: u16::try_from(port).unwrap_or(0) });
        let brokers: Vec<(i32, Host)> = answer.brokers.into_iter().map(broker).collect();
        if !brokers.is_empty() {
            self.known = brokers.iter().map(|(_, host)| host.clone()).collect();
        }
        let topic = |TopicAnswer { code, name, mut partitions, .. }| {
            partitions.sort_unstable_by_key(|partition| partition.number);
            let leaders = partitions.into_iter().map(|partition| Some(partition.leader).filter(|leader| *leader >= 0));
            TopicMetadata { name, code, leaders: leaders.collect() }
        };
        Ok(Metadata { brokers, topics: answer.topics.into_iter().map(topic).collect() })
    }

    /// Takes the producer's id: that of its name with the next epoch, or a new one. Returns as well why it is not that
    /// of the name; `None`: it is.
    pub(crate) async fn producer_id(
        &mut self,
        name: Option<&str>,
    ) -> Result<(ProducerId, Option<KafkaError>), KafkaError> {
        let mut nameless = refused("producer id", codes::NONE, Some("no name is given"));
        if let Some(name) = name {
            // The cluster does not give the id while it ends an earlier transaction of that name, which takes as long
            // as one topic has too few replicas: that must not hold up the other topics.
            match self.named_producer_id(name).await {
                Ok(id) => return Ok((id, None)),
                Err(refusal @ KafkaError::Refused { .. }) => nameless = refusal,
                Err(error) => return Err(error),
            }
        }
        for _ in 0..MOST_TRIES {
            let (code, id, epoch) = self.ask(&InitProducerId(None)).await?;
            if !codes::is_transient(code) {
                return check("producer id", code, None).map(|()| (ProducerId { id, epoch }, Some(nameless)));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(refused("producer id", codes::COORDINATOR_LOAD_IN_PROGRESS, None))
    }

    async fn named_producer_id(&mut self, name: &str) -> Result<ProducerId, KafkaError> {
        let began = Instant::now();
        loop {
            let taken = async {
                let (code, id, epoch) = self.coordinator(name).await?.ask(&InitProducerId(Some(name))).await?;
                check("producer id", code, None).map(|()| ProducerId { id, epoch })
            };
            match taken.await {
                Err(KafkaError::Refused { code, .. }) if codes::is_transient(code) && began.elapsed() < NAME_LIMIT => {}
                taken => return taken,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Connects to the broker that keeps the ids of this name.
    pub(crate) async fn coordinator(&mut self, name: &str) -> Result<Channel, KafkaError> {
        let (code, said, name, port) = self.ask(&FindCoordinator(name)).await?;
        check("coordinator", code, said.as_deref())?;
        let host = Host { name, port: u16::try_from(port).unwrap_or(0) };
        open(&self.config, &host).await
    }

    /// Asks any broker; another one if there is no answer over the connection that was there: a broker ends one without
    /// a word when it was idle for long, when its login has run out, and when it shuts down, and says nothing while it
    /// is frozen.
    pub(crate) async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Answer, KafkaError> {
        let was_open = self.channel.is_some();
        match self.ask_once(request).await {
            Err(KafkaError::Io(_) | KafkaError::ConnectTimeout(_)) if was_open => self.ask_once(request).await,
            answer => answer,
        }
    }

    async fn ask_once<R: Request>(&mut self, request: &R) -> Result<R::Answer, KafkaError> {
        if self.channel.is_none()
            && let Err(failures) = self.connect().await
        {
            let last = failures.into_iter().next_back().map(|(_, error)| error);
            return Err(last.unwrap_or_else(KafkaError::nowhere));
        }
        let Some((channel, _)) = &mut self.channel else { return Err(KafkaError::nowhere()) };
        let answer = channel.ask(request).await;
        if answer.is_err() {
            self.channel = None; // the next question asks another broker
        }
        answer
    }
}
