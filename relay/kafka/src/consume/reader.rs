//! Reads topics from a time on, without a consumer group.

pub(crate) mod leaders;
mod place;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use self::leaders::Leaders;
use super::batches;
use crate::{
    config::ProduceConfig,
    connect::{
        channel::Channel,
        control::Control,
        error::{ConnectError, KafkaError},
        open::{check, open},
    },
    record::{batch::ProducerId, fetched::Fetched},
    wire::{
        codes,
        requests::{Fetch, Request},
    },
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
    places: BTreeMap<(String, i32), Place>,
    /// What the topics have shown so far.
    seen: BTreeMap<String, Seen>,
    unreadable: u64,
}

/// A partition that is read.
#[derive(Debug)]
struct Place {
    leader: i32,
    /// The next offset.
    offset: i64,
    /// Up to where it had records that all in-sync replicas have, when it was last read.
    end: Option<i64>,
    /// The producers whose transactions have ended there.
    markers: Vec<ProducerId>,
}

/// A topic that is read from now on, or cannot be.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) topic: String,
    /// 0, or why a broker does not let read it.
    pub(crate) code: i16,
    /// The reason in words, if the code does not say it.
    pub(crate) said: Option<String>,
    pub(crate) partitions: Vec<i32>,
    /// Whether all partitions have leaders.
    pub(crate) is_led: bool,
}

/// What a topic has shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes of its batches.
    pub(crate) bytes: u64,
    /// Batches that were left out, as those of [`Reader::unreadable`].
    pub(crate) unreadable: u64,
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
            seen: BTreeMap::new(),
            unreadable: 0,
        })
    }

    /// Number of batches that were left out, because they cannot be read, or take more than 128 MiB once they are.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Begins to read a topic. Partitions without a leader are left out.
    ///
    /// # Errors
    ///
    /// The topic does not exist, or the user may not read it.
    pub async fn begin(&mut self, topic: &str, from: From) -> Result<(), KafkaError> {
        let limit = self.config.connect_timeout;
        let placed = self.place(&[(topic.to_owned(), from)], &mut Leaders::default(), limit).await?;
        placed.into_iter().try_for_each(|found| check("topic", found.code, found.said.as_deref()))
    }

    /// Reads no more of this topic.
    pub(crate) fn leave(&mut self, topic: &str) {
        self.places.retain(|(name, _), _| name != topic);
        self.seen.remove(topic);
    }

    /// What the topic has shown so far.
    pub(crate) fn seen(&self, topic: &str) -> Seen {
        self.seen.get(topic).copied().unwrap_or_default()
    }

    /// Reads the next records of all partitions; waits for the first of them for at most `wait`.
    ///
    /// # Errors
    ///
    /// A broker is gone, or has another leader's partitions: begin again.
    pub async fn next(&mut self, wait: Duration) -> Result<Vec<Fetched>, KafkaError> {
        let mut records = Vec::new();
        for (_, code) in self.step(wait, |record| records.push(record)).await? {
            check("fetch", code, None)?;
        }
        Ok(records)
    }

    /// Shows the next records of all partitions, as [`next`](Self::next). Returns the topics that a broker does not let
    /// read, with its code.
    pub(crate) async fn step(
        &mut self,
        wait: Duration,
        mut show: impl FnMut(Fetched),
    ) -> Result<Vec<(String, i16)>, KafkaError> {
        let mut by_leader: BTreeMap<i32, BTreeMap<String, Vec<(i32, i64)>>> = BTreeMap::new();
        for ((topic, partition), Place { leader, offset, .. }) in &self.places {
            by_leader.entry(*leader).or_default().entry(topic.clone()).or_default().push((*partition, *offset));
        }
        let share = wait / u32::try_from(by_leader.len().max(1)).unwrap_or(1);
        let (mut is_empty, mut refused) = (true, Vec::new());
        for (leader, topics) in by_leader {
            let wait = if is_empty { share } else { Duration::ZERO };
            let show = |record| {
                is_empty = false;
                show(record);
            };
            refused.extend(self.fetch(leader, topics, wait, show).await?);
        }
        Ok(refused)
    }

    async fn fetch(
        &mut self,
        leader: i32,
        topics: BTreeMap<String, Vec<(i32, i64)>>,
        wait: Duration,
        mut show: impl FnMut(Fetched),
    ) -> Result<Vec<(String, i16)>, KafkaError> {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let request = Fetch { wait_ms, most_bytes: MOST_BYTES, topics: topics.into_iter().collect() };
        let (code, topics) = self.ask(leader, &request).await?;
        check("fetch", code, None)?;
        let (mut refused, mut taken) = (Vec::new(), 0);
        let parts =
            topics.into_iter().flat_map(|(topic, parts)| parts.into_iter().map(move |part| (topic.clone(), part)));
        for (topic, part) in parts {
            let at = (topic, part.partition);
            let Some(place) = self.places.get_mut(&at) else { continue };
            let (topic, partition) = at;
            if part.code != codes::NONE {
                refused.push((topic, part.code));
                continue;
            }
            place.end = Some(part.end);
            let bytes = part.records.len() as u64;
            let batches = batches::read(part.records, &mut taken)?;
            if let Some(seen) = self.seen.get_mut(&topic) {
                seen.bytes += bytes;
                seen.unreadable += batches.unreadable;
            }
            self.unreadable += batches.unreadable;
            place.markers.extend(batches.markers);
            // A batch may begin before the offset that was asked for.
            let first = place.offset;
            place.offset = batches.next.map_or(first, |next| next.max(first));
            for record in batches.records.into_iter().filter(|record| record.offset >= first) {
                show(Fetched {
                    topic: topic.clone(),
                    partition,
                    offset: record.offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key,
                    headers: record.headers,
                    value: record.value,
                });
            }
        }
        Ok(refused)
    }

    /// Whether all partitions were read up to where they ended when they were last read.
    pub fn is_at_end(&self) -> bool {
        self.places.values().all(|place| place.end.is_some_and(|end| place.offset >= end))
    }

    /// Whether all partitions of a topic were read up to the end of a transaction of this producer; `None`: up to where
    /// they ended when they were last read.
    pub(crate) fn is_read(&self, topic: &str, marker: Option<ProducerId>) -> bool {
        let mut places = self.places.iter().filter(|((name, _), _)| name == topic).map(|(_, place)| place);
        places.all(|place| match marker {
            Some(producer) => place.markers.contains(&producer),
            None => place.end.is_some_and(|end| place.offset >= end),
        })
    }

    /// Asks a partition's leader; over a new connection if the broker has ended the one that was there.
    async fn ask<R: Request>(&mut self, leader: i32, request: &R) -> Result<R::Answer, KafkaError> {
        let unknown = || KafkaError::Protocol("a leader that is no broker".to_owned());
        let host = self.brokers.get(&leader).ok_or_else(unknown)?;
        if let Some(mut channel) = self.channels.remove(&leader) {
            match channel.ask(request).await {
                Ok(answer) => {
                    self.channels.insert(leader, channel);
                    return Ok(answer);
                }
                Err(KafkaError::Io(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut channel = open(&self.config, host).await?;
        let answer = channel.ask(request).await?;
        self.channels.insert(leader, channel);
        Ok(answer)
    }
}
