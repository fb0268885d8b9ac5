//! What an administrator does with topics.

use std::fmt::Debug;

use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeQuorumRequest,
        IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest, TopicName,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
        delete_topics_request::DeleteTopicState,
        describe_quorum_request::{PartitionData, TopicData},
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_offsets_response::ListOffsetsPartitionResponse,
        metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponsePartition,
    },
    protocol::StrBytes,
};
use uuid::Uuid;

use super::{Kafka, KafkaClient, KafkaNode, Listener};
use crate::{SOON, eventually};

/// How long the broker may take for one request of these.
const TIMEOUT_MS: i32 = 30_000;

impl Kafka {
    /// A new topic with a name of its own and these settings, e.g. `("cleanup.policy", "compact")`.
    pub async fn topic(&self, partitions: i32, settings: &[(&str, &str)]) -> String {
        let name = format!("topic-{}", Uuid::new_v4().simple());
        self.create_topic(&name, partitions, settings).await;
        name
    }

    /// A new topic with a name of its own and one partition, whose only replica is on this node.
    pub async fn topic_on(&self, node: &KafkaNode) -> String {
        let name = format!("topic-{}", Uuid::new_v4().simple());
        let on_node = CreatableReplicaAssignment::default().with_broker_ids(vec![node.id().into()]);
        let topic = CreatableTopic::default().with_num_partitions(-1).with_assignments(vec![on_node]);
        self.create(&name, topic).await;
        self.wait_for_leaders(&name, 1).await;
        name
    }

    /// Creates a topic, and waits until every running node knows its leaders.
    ///
    /// # Panics
    /// When Kafka refuses it.
    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let settings = settings
            .iter()
            .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))));
        self.create(name, CreatableTopic::default().with_num_partitions(partitions).with_configs(settings.collect()))
            .await;
        self.wait_for_leaders(name, partitions).await;
    }

    async fn create(&self, name: &str, topic: CreatableTopic) {
        let topic = topic.with_name(topic_name(name)).with_replication_factor(-1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
        let response = self.client().await.request(7, &request).await;
        done(&format!("create topic {name}"), response.topics.iter().map(|topic| (topic.error_code, topic)));
    }

    /// Deletes a topic.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn delete_topic(&self, name: &str) {
        let topic = DeleteTopicState::default().with_name(Some(topic_name(name)));
        let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
        let response = self.client().await.request(6, &request).await;
        done(&format!("delete topic {name}"), response.responses.iter().map(|topic| (topic.error_code, topic)));
    }

    /// Has the topic have so many partitions, more than before.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn grow_topic(&self, name: &str, partitions: i32) {
        let topic =
            CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(partitions).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
        let response = self.client().await.request(3, &request).await;
        done(&format!("grow topic {name}"), response.results.iter().map(|topic| (topic.error_code, topic)));
        self.wait_for_leaders(name, partitions).await;
    }

    /// Changes a setting of a topic.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn set_of_topic(&self, topic: &str, name: &str, value: &str) {
        let setting = AlterableConfig::default().with_name(text(name)).with_value(Some(text(value)));
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(topic))
            .with_configs(vec![setting]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response = self.client().await.request(1, &request).await;
        done(&format!("set {name} of {topic}"), response.responses.iter().map(|topic| (topic.error_code, topic)));
    }

    /// The node that leads a partition, as a running node knows it.
    ///
    /// # Panics
    /// When there is none within [`SOON`].
    pub async fn leader(&self, topic: &str, partition: i32) -> i32 {
        eventually(&format!("{topic}-{partition} has a leader"), SOON, async || {
            let leaders = leaders(&mut self.client().await, topic).await?;
            leaders.into_iter().find(|(index, _)| *index == partition).map(|(_, leader)| leader).ok_or(String::new())
        })
        .await
    }

    /// The id of the node that controls the cluster.
    ///
    /// # Panics
    /// When no node does so within [`SOON`].
    pub async fn controller(&self) -> i32 {
        let metadata = TopicData::default().with_topic_name(topic_name("__cluster_metadata"));
        let request = DescribeQuorumRequest::default()
            .with_topics(vec![metadata.with_partitions(vec![PartitionData::default()])]);
        eventually("a node controls the cluster", SOON, async || {
            let response = self.client().await.try_request(1, &request).await?;
            let partition = response.topics.iter().flat_map(|topic| &topic.partitions).next();
            partition.map(|partition| partition.leader_id.0).filter(|id| *id > 0).ok_or(format!("{response:?}"))
        })
        .await
    }

    /// Waits until a running node knows that a partition of this topic has no leader.
    ///
    /// # Panics
    /// When that takes longer than [`SOON`].
    pub async fn wait_for_no_leader(&self, topic: &str) {
        eventually(&format!("{topic} has no leader"), SOON, async || {
            let partitions = partitions(&mut self.client().await, topic).await?;
            let leaders: Vec<i32> = partitions.iter().map(|partition| partition.leader_id.0).collect();
            if leaders.contains(&-1) { Ok(()) } else { Err(format!("{leaders:?}")) }
        })
        .await;
    }

    /// Waits until so many replicas of each partition are in sync.
    ///
    /// # Panics
    /// When that takes longer than twice [`SOON`].
    pub async fn wait_for_replicas_in_sync(&self, topic: &str, count: usize) {
        eventually(&format!("{topic} has {count} replicas in sync"), 2 * SOON, async || {
            let partitions = partitions(&mut self.client().await, topic).await?;
            let in_sync: Vec<usize> = partitions.iter().map(|partition| partition.isr_nodes.len()).collect();
            if in_sync.iter().all(|known| *known == count) { Ok(()) } else { Err(format!("{in_sync:?}")) }
        })
        .await;
    }

    /// A partition's first offset with this time (ms since 1970) or a later one, -1 if there is none. The time -1 asks
    /// for the end, and -2 for the start.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn offset_at(&self, topic: &str, partition: i32, time: i64) -> i64 {
        let leader = self.node(self.leader(topic, partition).await);
        let mut client = KafkaClient::connect(leader.port(Listener::Plain)).await;
        let answers =
            offsets_at(&mut client, topic, &[partition], time).await.unwrap_or_else(|e| panic!("{topic}: {e}"));
        done(&format!("offsets of {topic}"), answers.iter().map(|answer| (answer.error_code, answer)));
        answers.first().expect("one answer").offset
    }

    /// Number of records that were ever written to a topic, with the markers of transactions.
    ///
    /// # Panics
    /// When a partition has no leader.
    pub async fn count(&self, topic: &str) -> u64 {
        let leaders = leaders(&mut self.client().await, topic).await.unwrap_or_else(|e| panic!("{topic}: {e}"));
        let mut count = 0;
        for node in &self.nodes {
            let its_own: Vec<_> = leaders.iter().filter(|(_, id)| *id == node.id()).map(|(index, _)| *index).collect();
            if its_own.is_empty() {
                continue;
            }
            let mut client = KafkaClient::connect(node.port(Listener::Plain)).await;
            let ends = offsets_at(&mut client, topic, &its_own, -1).await.unwrap_or_else(|e| panic!("{topic}: {e}"));
            count += ends.iter().map(|end| end.offset.max(0).unsigned_abs()).sum::<u64>();
        }
        count
    }

    /// A node knows who leads a partition a moment before it takes records as its leader.
    async fn wait_for_leaders(&self, topic: &str, partitions: i32) {
        for node in self.nodes().iter().filter(|node| node.is_running()) {
            eventually(&format!("node {} knows {topic}", node.id()), SOON, async || {
                let mut client = KafkaClient::try_connect(node.port(Listener::Plain)).await?;
                let leaders = leaders(&mut client, topic).await?;
                if usize::try_from(partitions) != Ok(leaders.len()) {
                    return Err(format!("{} partitions", leaders.len()));
                }
                let leaders = leaders.into_iter().filter(|(_, leader)| *leader == node.id());
                let its_own: Vec<_> = leaders.map(|(partition, _)| partition).collect();
                let answers = offsets_at(&mut client, topic, &its_own, -1).await?;
                if answers.iter().all(|answer| answer.error_code == 0) { Ok(()) } else { Err(format!("{answers:?}")) }
            })
            .await;
        }
    }
}

async fn offsets_at(
    client: &mut KafkaClient,
    topic: &str,
    partitions: &[i32],
    time: i64,
) -> Result<Vec<ListOffsetsPartitionResponse>, String> {
    let wanted = partitions
        .iter()
        .map(|partition| ListOffsetsPartition::default().with_partition_index(*partition).with_timestamp(time));
    let wanted = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(wanted.collect());
    let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![wanted]);
    let response = client.try_request(7, &request).await?;
    Ok(response.topics.into_iter().flat_map(|topic| topic.partitions).collect())
}

/// A topic's partitions and their leaders, as one node knows them.
pub(super) async fn leaders(client: &mut KafkaClient, topic: &str) -> Result<Vec<(i32, i32)>, String> {
    let partitions = partitions(client, topic).await?.into_iter().map(|partition| {
        let (index, leader) = (partition.partition_index, partition.leader_id.0);
        if leader < 0 { Err(format!("{topic}-{index} has no leader")) } else { Ok((index, leader)) }
    });
    partitions.collect()
}

async fn partitions(client: &mut KafkaClient, topic: &str) -> Result<Vec<MetadataResponsePartition>, String> {
    let wanted = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    let request = MetadataRequest::default().with_topics(Some(vec![wanted])).with_allow_auto_topic_creation(false);
    let response = client.try_request(12, &request).await?;
    let partitions = response.topics.into_iter().map(|topic| match topic.error_code {
        0 => Ok(topic.partitions),
        code => Err(format!("{:?}: code {code}", topic.name)),
    });
    Ok(partitions.collect::<Result<Vec<_>, _>>()?.concat())
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn done<T: Debug>(what: &str, answers: impl IntoIterator<Item = (i16, T)>) {
    for (code, answer) in answers {
        assert_eq!(code, 0, "{what}: {answer:?}");
    }
}
