//! Reads a topic.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    time::Duration,
};

use kafka_protocol::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};

use super::{
    Kafka, KafkaClient, KafkaRecord, Listener,
    admin::{leaders, topic_name},
    record::decode,
};
use crate::{SOON, eventually};

/// At most this is read at once; one batch is always.
const MAX_BYTES: i32 = 32 * 1024 * 1024;

/// Reads all partitions of a topic from their starts, and keeps the records.
#[derive(Debug)]
pub struct KafkaConsumer<'a> {
    kafka: &'a Kafka,
    topic: String,
    /// The next offset of each partition.
    next: BTreeMap<i32, i64>,
    records: Vec<KafkaRecord>,
}

impl Kafka {
    /// A consumer of a topic.
    pub fn consumer(&self, topic: &str) -> KafkaConsumer<'_> {
        KafkaConsumer { kafka: self, topic: topic.to_owned(), next: BTreeMap::new(), records: Vec::new() }
    }

    /// All records of a topic, as they are now.
    pub async fn records(&self, topic: &str) -> Vec<KafkaRecord> {
        let mut consumer = self.consumer(topic);
        consumer.read().await;
        consumer.records
    }
}

impl KafkaConsumer<'_> {
    /// What was read so far: each partition's records in their order.
    pub fn records(&self) -> &[KafkaRecord] {
        &self.records
    }

    /// Reads up to the present ends of all partitions.
    ///
    /// # Panics
    /// When that fails for longer than [`SOON`].
    pub async fn read(&mut self) -> &[KafkaRecord] {
        let what = format!("{} is read", self.topic);
        eventually(&what, SOON, async || self.try_read().await).await;
        &self.records
    }

    /// Reads until there are so many records.
    ///
    /// # Panics
    /// When they have not come within [`SOON`].
    pub async fn wait_for(&mut self, count: usize) -> &[KafkaRecord] {
        self.wait_for_within(count, SOON).await
    }

    /// The same with another deadline.
    ///
    /// # Panics
    /// When they have not come within it.
    pub async fn wait_for_within(&mut self, count: usize, deadline: Duration) -> &[KafkaRecord] {
        let what = format!("{} has {count} records", self.topic);
        eventually(&what, deadline, async || {
            self.try_read().await?;
            if self.records.len() >= count { Ok(()) } else { Err(format!("{} records", self.records.len())) }
        })
        .await;
        &self.records
    }

    async fn try_read(&mut self) -> Result<(), String> {
        let node = self.kafka.nodes().iter().find(|node| node.is_running()).ok_or("no node is running")?;
        let mut client = KafkaClient::try_connect(node.port(Listener::Plain)).await?;
        let mut leaders = leaders(&mut client, &self.topic).await?;
        leaders.sort_unstable();
        let mut clients = HashMap::from([(node.id(), client)]);
        for (partition, leader) in leaders {
            let node = self.kafka.node(leader);
            if !node.is_running() {
                return Err(format!("node {leader} leads {}-{partition} and does not run", self.topic));
            }
            let client = match clients.entry(leader) {
                Entry::Occupied(client) => client.into_mut(),
                Entry::Vacant(none) => none.insert(KafkaClient::try_connect(node.port(Listener::Plain)).await?),
            };
            while self.fetch(client, partition).await? {}
        }
        Ok(())
    }

    /// Returns whether there is more.
    async fn fetch(&mut self, client: &mut KafkaClient, partition: i32) -> Result<bool, String> {
        let next = self.next.entry(partition).or_default();
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(*next)
            .with_partition_max_bytes(MAX_BYTES);
        let wanted = FetchTopic::default().with_topic(topic_name(&self.topic)).with_partitions(vec![wanted]);
        let request = FetchRequest::default().with_max_bytes(MAX_BYTES).with_topics(vec![wanted]);
        let response = client.try_request(12, &request).await?;
        let answer = response.responses.into_iter().next().and_then(|topic| topic.partitions.into_iter().next());
        let answer = answer.ok_or_else(|| format!("code {}", response.error_code))?;
        match answer.error_code {
            0 => {}
            1 if *next < answer.log_start_offset => {
                // OFFSET_OUT_OF_RANGE: retention has removed the first records
                *next = answer.log_start_offset;
                return Ok(true);
            }
            code => return Err(format!("{}-{partition}: code {code}", self.topic)),
        }
        let (records, after) = decode(partition, answer.records.unwrap_or_default(), *next);
        *next = after;
        self.records.extend(records);
        Ok(after < answer.high_watermark)
    }
}
