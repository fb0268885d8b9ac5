//! Reads topics from a time on, without a consumer group.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use super::batches::{self, Fetched};
use crate::{
    config::ProduceConfig,
    connect::{
        channel::Channel,
        control::Control,
        error::KafkaError,
        open::{check, open},
    },
    produce::producer::ConnectError,
    wire::requests::{Fetch, ListOffsets},
};
use client_socket::Host;

/// Most bytes of an answer, and of a partition's part.
const MOST_BYTES: i32 = 4 << 20;

/// From where on a topic is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// What arrives from now on.
    End,
    /// From the first record with this time or a later one, in milliseconds since 1970.
    Time(i64),
    /// All that the topic has.
    Beginning,
}

/// A reader of topics, each partition from a place of its own.
pub struct Reader {
    config: ProduceConfig,
    control: Control,
    brokers: HashMap<i32, Host>,
    channels: HashMap<i32, Channel>,
    /// The leader, and the next offset, of each partition.
    places: BTreeMap<(String, i32), (i32, i64)>,
    /// Up to where each partition had records that all replicas have, when it was last read.
    ends: BTreeMap<(String, i32), i64>,
    compressed: u64,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Reader {
    /// Connects to a broker of the cluster, and logs in.
    ///
    /// # Errors
    ///
    /// No host lets the reader in.
    pub async fn connect(config: ProduceConfig) -> Result<Self, ConnectError> {
        let mut control = Control::new(config.clone());
        control.connect().await.map_err(|failures| ConnectError { failures })?;
        Ok(Self {
            config,
            control,
            brokers: HashMap::new(),
            channels: HashMap::new(),
            places: BTreeMap::new(),
            ends: BTreeMap::new(),
            compressed: 0,
        })
    }

    /// Number of batches that were left out because they are compressed.
    pub fn compressed(&self) -> u64 {
        self.compressed
    }

    /// Begins to read a topic.
    ///
    /// # Errors
    ///
    /// The topic does not exist, or the user may not read it.
    pub async fn begin(&mut self, topic: &str, from: From) -> Result<(), KafkaError> {
        let names = [topic.to_owned()];
        let metadata = self.control.metadata(&names).await?;
        self.brokers.extend(metadata.brokers);
        for found in metadata.topics {
            check("topic", found.code, None)?;
            let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
            for (number, leader) in (0..).zip(found.leaders) {
                if let Some(leader) = leader {
                    by_leader.entry(leader).or_default().push(number);
                }
            }
            for (leader, partitions) in by_leader {
                for (partition, offset) in self.offsets(leader, topic, &partitions, from).await? {
                    self.places.insert((topic.to_owned(), partition), (leader, offset));
                }
            }
        }
        Ok(())
    }

    /// The offsets of partitions of one leader. Where no record is so new, that is the end.
    async fn offsets(
        &mut self,
        leader: i32,
        topic: &str,
        partitions: &[i32],
        from: From,
    ) -> Result<Vec<(i32, i64)>, KafkaError> {
        const LATEST: i64 = -1;
        const EARLIEST: i64 = -2;
        let time = match from {
            From::End => LATEST,
            From::Beginning => EARLIEST,
            From::Time(ms) => ms.max(0),
        };
        let mut offsets = self.list_offsets(leader, topic, partitions, time).await?;
        let late: Vec<i32> =
            offsets.iter().filter(|(_, offset)| *offset < 0).map(|(partition, _)| *partition).collect();
        if !late.is_empty() {
            offsets.retain(|(_, offset)| *offset >= 0);
            offsets.extend(self.list_offsets(leader, topic, &late, LATEST).await?);
        }
        Ok(offsets)
    }

    async fn list_offsets(
        &mut self,
        leader: i32,
        topic: &str,
        partitions: &[i32],
        time: i64,
    ) -> Result<Vec<(i32, i64)>, KafkaError> {
        let answer = self.channel(leader).await?.ask(&ListOffsets { topic, partitions, time_ms: time }).await;
        let mut offsets = Vec::new();
        for (partition, code, offset) in self.heard(leader, answer)? {
            check("offsets", code, None)?;
            offsets.push((partition, offset));
        }
        Ok(offsets)
    }

    /// Reads the next records of all partitions; waits for the first of them for at most `wait`.
    ///
    /// # Errors
    ///
    /// A broker is gone, or has another leader's partitions: begin again.
    pub async fn next(&mut self, wait: Duration) -> Result<Vec<Fetched>, KafkaError> {
        let mut by_leader: BTreeMap<i32, BTreeMap<String, Vec<(i32, i64)>>> = BTreeMap::new();
        for ((topic, partition), (leader, offset)) in &self.places {
            by_leader.entry(*leader).or_default().entry(topic.clone()).or_default().push((*partition, *offset));
        }
        let share = wait / u32::try_from(by_leader.len().max(1)).unwrap_or(1);
        let mut records = Vec::new();
        for (leader, topics) in by_leader {
            let wait = if records.is_empty() { share } else { Duration::ZERO };
            records.extend(self.fetch(leader, topics, wait).await?);
        }
        Ok(records)
    }

    async fn fetch(
        &mut self,
        leader: i32,
        topics: BTreeMap<String, Vec<(i32, i64)>>,
        wait: Duration,
    ) -> Result<Vec<Fetched>, KafkaError> {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let request = Fetch { wait_ms, most_bytes: MOST_BYTES, topics: topics.into_iter().collect() };
        let answer = self.channel(leader).await?.ask(&request).await;
        let mut fetched = Vec::new();
        for part in self.heard(leader, answer)? {
            check("fetch", part.code, None)?;
            let place = (part.topic.clone(), part.partition);
            let Some((_, offset)) = self.places.get_mut(&place) else { continue };
            self.ends.insert(place, part.end);
            let batches = batches::read(part.records)?;
            self.compressed += batches.compressed;
            // A batch may begin before the offset that was asked for.
            let first = *offset;
            *offset = batches.next.map_or(first, |next| next.max(first));
            let records = batches.records.into_iter().filter(|record| record.offset >= first);
            fetched.extend(records.map(|record| Fetched {
                topic: part.topic.clone(),
                partition: part.partition,
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                headers: record.headers,
                value: record.value,
            }));
        }
        Ok(fetched)
    }

    /// Whether all partitions were read up to where they ended when they were last read.
    pub fn is_at_end(&self) -> bool {
        self.places.iter().all(|(place, (_, offset))| self.ends.get(place).is_some_and(|end| offset >= end))
    }

    async fn channel(&mut self, leader: i32) -> Result<&mut Channel, KafkaError> {
        if !self.channels.contains_key(&leader) {
            let unknown = || KafkaError::Protocol("a leader that is no broker".to_owned());
            let host = self.brokers.get(&leader).ok_or_else(unknown)?;
            let channel = open(&self.config, host).await?;
            self.channels.insert(leader, channel);
        }
        self.channels.get_mut(&leader).ok_or(KafkaError::HungUp)
    }

    fn heard<T>(&mut self, leader: i32, answer: Result<T, KafkaError>) -> Result<T, KafkaError> {
        if answer.is_err() {
            self.channels.remove(&leader);
        }
        answer
    }
}
