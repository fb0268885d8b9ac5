//! What is asked of the cluster beside the records: which brokers and topics there are, and the producer's id. It has a
//! connection of its own, since a broker answers nothing else on one where a batch waits for replicas.

use client_socket::{Host, Socket};
use kafka_protocol::{
    error::ResponseError,
    messages::{
        FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest, TopicName, TransactionalId,
        metadata_request::MetadataRequestTopic,
    },
    protocol::{StrBytes, VersionRange},
};

use super::{
    channel::{Channel, Question},
    error::KafkaError,
    open::{check, open},
};
use crate::{config::ProduceConfig, record::batch::ProducerId};

/// How often a producer id is asked for while the brokers load what they know of such ids, a tenth of a second apart.
const MOST_TRIES: usize = 100;

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
        let mut configured = self.config.url.hosts.clone();
        fastrand::shuffle(&mut configured);
        hosts.extend(configured.into_iter().filter(|host| !self.known.contains(host)));
        let mut failures = Vec::new();
        for host in hosts {
            match open(&self.config, &host).await {
                Ok(channel) => {
                    self.channel = Some((channel, host));
                    return Ok(());
                }
                Err(error) => failures.push((host, error)),
            }
        }
        Err(failures)
    }

    /// Asks for the brokers and these topics; creates none.
    pub(crate) async fn metadata(&mut self, topics: &[String]) -> Result<Metadata, KafkaError> {
        let topic = |name: &String| {
            let name = TopicName(StrBytes::from_string(name.clone()));
            MetadataRequestTopic::default().with_name(Some(name))
        };
        let request = MetadataRequest::default()
            .with_topics(Some(topics.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(false);
        let answer = self.ask(&request, VersionRange { min: 4, max: 12 }).await?;
        let host = |name: &str, port: i32| Host { name: name.to_owned(), port: u16::try_from(port).unwrap_or(0) };
        let brokers: Vec<(i32, Host)> =
            answer.brokers.iter().map(|broker| (broker.node_id.0, host(broker.host.as_str(), broker.port))).collect();
        if !brokers.is_empty() {
            self.known = brokers.iter().map(|(_, host)| host.clone()).collect();
        }
        let topics = answer.topics.iter().map(|topic| {
            let mut leaders: Vec<(i32, Option<i32>)> = topic
                .partitions
                .iter()
                .map(|part| (part.partition_index, Some(part.leader_id.0).filter(|leader| *leader >= 0)))
                .collect();
            leaders.sort_unstable();
            TopicMetadata {
                name: topic.name.as_ref().map(|name| name.0.to_string()).unwrap_or_default(),
                code: topic.error_code,
                leaders: leaders.into_iter().map(|(_, leader)| leader).collect(),
            }
        });
        Ok(Metadata { brokers, topics: topics.collect() })
    }

    /// Takes the producer's id: that of its name with the next epoch, or a new one.
    pub(crate) async fn producer_id(&mut self) -> Result<ProducerId, KafkaError> {
        if let Some(name) = self.config.identity.clone() {
            match self.named_producer_id(&name).await {
                Err(KafkaError::Refused { code, .. })
                    if code == ResponseError::TransactionalIdAuthorizationFailed.code() => {}
                taken => return taken,
            }
        }
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let mut tries = 0;
        loop {
            let answer = self.ask(&request, VersionRange { min: 0, max: 4 }).await?;
            tries += 1;
            if !is_loading(answer.error_code) || tries == MOST_TRIES {
                check("producer id", answer.error_code, None)?;
                return Ok(ProducerId { id: answer.producer_id.0, epoch: answer.producer_epoch });
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    async fn named_producer_id(&mut self, name: &str) -> Result<ProducerId, KafkaError> {
        let id = TransactionalId(StrBytes::from_string(name.to_owned()));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let mut tries = 0;
        loop {
            let answer = match self.coordinator(name).await {
                Ok(mut coordinator) => coordinator.ask(&request, VersionRange { min: 0, max: 4 }).await.map(|answer| {
                    (answer.error_code, ProducerId { id: answer.producer_id.0, epoch: answer.producer_epoch })
                }),
                Err(error) => Err(error),
            };
            tries += 1;
            match answer {
                Ok((code, _)) if is_loading(code) && tries < MOST_TRIES => {}
                Err(KafkaError::Refused { code, .. }) if is_loading(code) && tries < MOST_TRIES => {}
                Ok((code, producer)) => return check("producer id", code, None).map(|()| producer),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Connects to the broker that keeps the ids of this name.
    async fn coordinator(&mut self, name: &str) -> Result<Channel, KafkaError> {
        let key = StrBytes::from_string(name.to_owned());
        let request = FindCoordinatorRequest::default().with_key(key).with_key_type(1); // of a transactional id
        let answer = self.ask(&request, VersionRange { min: 1, max: 3 }).await?;
        check("coordinator", answer.error_code, answer.error_message.as_deref())?;
        let host = Host { name: answer.host.to_string(), port: u16::try_from(answer.port).unwrap_or(0) };
        open(&self.config, &host).await
    }

    async fn ask<Q: Question>(&mut self, request: &Q, ours: VersionRange) -> Result<Q::Answer, KafkaError> {
        if self.channel.is_none()
            && let Err(failures) = self.connect().await
        {
            let last = failures.into_iter().next_back().map(|(_, error)| error);
            return Err(last.unwrap_or_else(|| KafkaError::Protocol("there is no host".to_owned())));
        }
        let Some((channel, _)) = &mut self.channel else { return Err(KafkaError::HungUp) };
        let answer = channel.ask(request, ours).await;
        if answer.is_err() {
            self.channel = None; // the next question asks another broker
        }
        answer
    }
}

/// Whether the brokers cannot answer yet, and will.
fn is_loading(code: i16) -> bool {
    ResponseError::try_from_code(code).is_some_and(|error| error.is_retriable())
}
