//! Looks at a cluster and changes nothing.

use std::collections::HashMap;

use client_socket::{Host, Socket};

use crate::{
    config::ProduceConfig,
    connect::{
        control::Control,
        error::{ConnectError, KafkaError},
        open::check,
    },
    produce::confirm::Reason,
    record::batch::ProducerId,
    wire::{
        codes,
        inspecting::DescribeConfigs,
        requests::{EndTxn, Metadata, NO_RIGHTS_ASKED, TopicAnswer},
    },
};

/// Kafka's numbers of the operations READ and WRITE.
const READ: i32 = 3;
const WRITE: i32 = 4;

/// A topic as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicState {
    /// The topic's name.
    pub name: String,
    /// Why the topic cannot be used; `None`: it can.
    pub error: Option<Reason>,
    /// Number of partitions.
    pub partitions: usize,
    /// How many of them have no leader.
    pub leaderless: usize,
    /// The replicas of the partition that has the fewest.
    pub replicas: usize,
    /// What the user may do; `None`: the cluster does not say.
    pub rights: Option<TopicRights>,
}

/// What a user may do with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRights {
    /// Read its records.
    pub read: bool,
    /// Write records.
    pub write: bool,
}

/// Settings of a topic by their names, or why they are not known.
pub type TopicSettings = Result<HashMap<String, String>, Reason>;

/// Looks at a cluster: topics, their settings, the user's rights. It changes nothing.
#[derive(Debug)]
pub struct Inspector {
    control: Control,
}

impl Inspector {
    /// Connects to a broker of the cluster, and logs in.
    ///
    /// # Errors
    ///
    /// No host lets the inspector in.
    pub async fn connect(config: ProduceConfig) -> Result<Self, ConnectError> {
        let mut control = Control::new(config);
        control.connect().await.map_err(|failures| ConnectError { failures })?;
        Ok(Self { control })
    }

    /// The broker that answers.
    pub fn peer(&self) -> Option<&Host> {
        self.control.peer()
    }

    /// That connection's socket.
    pub fn socket(&self) -> Option<&Socket> {
        self.control.socket()
    }

    /// What the cluster says of these topics. None is created.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub async fn topics(&mut self, names: &[String]) -> Result<Vec<TopicState>, KafkaError> {
        let answer = self.control.ask(&Metadata { topics: names, rights: true }).await?;
        Ok(answer.topics.into_iter().map(state).collect())
    }

    /// The settings of these names that hold for these topics, each topic with its name.
    ///
    /// # Errors
    ///
    /// No broker answers.
    pub async fn settings(
        &mut self,
        topics: &[String],
        names: &[&str],
    ) -> Result<Vec<(String, TopicSettings)>, KafkaError> {
        let answers = self.control.ask(&DescribeConfigs { topics, names }).await?;
        let settings = answers.into_iter().map(|answer| {
            let known = if answer.code == 0 { Ok(answer.values) } else { Err(reason(answer.code, answer.text)) };
            (answer.topic, known)
        });
        Ok(settings.collect())
    }

    /// Whether the user has the right WRITE on this transactional id.
    ///
    /// # Errors
    ///
    /// No broker answers, or the answer leaves it open.
    pub async fn may_write_as(&mut self, name: &str) -> Result<bool, KafkaError> {
        // It is the end of a transaction that nobody has: the broker looks at the right, and then refuses.
        let nobody = ProducerId { id: -1, epoch: -1 };
        match self.control.ask(&EndTxn { name, producer: nobody }).await? {
            codes::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => Ok(false),
            codes::INVALID_PRODUCER_ID_MAPPING | codes::NOT_COORDINATOR | codes::COORDINATOR_LOAD_IN_PROGRESS => {
                Ok(true)
            }
            code => check("transactional id", code, None).map(|()| true),
        }
    }
}

fn state(topic: TopicAnswer) -> TopicState {
    let TopicAnswer { code, name, partitions, rights } = topic;
    let may = |operation: i32| rights >> operation & 1 == 1;
    let rights = (rights != NO_RIGHTS_ASKED).then(|| TopicRights { read: may(READ), write: may(WRITE) });
    TopicState {
        error: (code != 0).then(|| reason(code, None)),
        leaderless: partitions.iter().filter(|partition| partition.leader < 0).count(),
        replicas: partitions.iter().map(|partition| partition.replicas).min().unwrap_or_default(),
        partitions: partitions.len(),
        name,
        rights,
    }
}

fn reason(code: i16, said: Option<String>) -> Reason {
    let name = codes::name(code);
    let said = said.filter(|said| !said.is_empty());
    Reason { code, text: said.map_or(name.clone(), |said| format!("{name}: {said}")) }
}
