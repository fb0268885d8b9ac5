//! Follows a topic, as a consumer that is always there does.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use kafka_protocol::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};
use tokio::task::JoinHandle;

use super::{
    Kafka, KafkaClient, KafkaRecord,
    admin::{leaders, topic_name},
    record::decode,
};

/// How long a node waits for a record before it answers that there is none.
const WAIT_MS: i32 = 500;

/// Reads all partitions of a topic of a Kafka with one node in the background, and keeps every record, until it is
/// dropped.
#[derive(Debug)]
pub struct KafkaFollower {
    topic: String,
    arrived: Arc<Mutex<Vec<(KafkaRecord, SystemTime)>>>,
    task: JoinHandle<Result<(), String>>,
}

impl Kafka {
    /// Follows a topic from its start on.
    ///
    /// # Panics
    /// When there is no such topic.
    pub async fn follow(&self, topic: &str) -> KafkaFollower {
        let mut client = self.client().await;
        let partitions = leaders(&mut client, topic).await.unwrap_or_else(|e| panic!("{topic}: {e}"));
        let next = partitions.into_iter().map(|(partition, _)| (partition, 0)).collect();
        let arrived = Arc::default();
        let task = tokio::spawn(follow(client, topic.to_owned(), next, Arc::clone(&arrived)));
        KafkaFollower { topic: topic.to_owned(), arrived, task }
    }
}

impl KafkaFollower {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// How many records have arrived since [`take`](Self::take).
    pub fn count(&self) -> usize {
        self.arrived.lock().expect("no panic while locked").len()
    }

    /// The records that have arrived since the last call, in order, each with the time of its arrival.
    pub fn take(&self) -> Vec<(KafkaRecord, SystemTime)> {
        mem::take(&mut *self.arrived.lock().expect("no panic while locked"))
    }
}

impl Drop for KafkaFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends with the reason when the node is gone.
async fn follow(
    mut client: KafkaClient,
    topic: String,
    mut next: BTreeMap<i32, i64>,
    arrived: Arc<Mutex<Vec<(KafkaRecord, SystemTime)>>>,
) -> Result<(), String> {
    loop {
        let wanted = next.iter().map(|(partition, offset)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(1 << 20)
        });
        let wanted = FetchTopic::default().with_topic(topic_name(&topic)).with_partitions(wanted.collect());
        let request = FetchRequest::default().with_max_wait_ms(WAIT_MS).with_min_bytes(1).with_topics(vec![wanted]);
        let response = client.try_request(12, &request).await?;
        let received = SystemTime::now();
        for answer in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            if answer.error_code != 0 {
                return Err(format!("{topic}-{}: code {}", answer.partition_index, answer.error_code));
            }
            let offset = next.entry(answer.partition_index).or_default();
            let (records, after) = decode(answer.partition_index, answer.records.unwrap_or_default(), *offset);
            *offset = after;
            let mut arrived = arrived.lock().expect("no panic while locked");
            arrived.extend(records.into_iter().map(|record| (record, received)));
        }
    }
}
