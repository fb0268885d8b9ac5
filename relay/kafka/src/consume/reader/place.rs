//! Finds from where on the partitions of topics are read.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    From, Place, Placed, Reader, Seen,
    leaders::{Leaders, Reached},
};
use crate::{
    connect::error::KafkaError,
    wire::{
        codes,
        requests::{ByTopic, ListOffsets},
    },
};

/// Most topics that are asked for at a time.
const MOST_TOPICS: usize = 1000;
/// The time that means the end of a partition.
const LATEST: i64 = -1;

impl From {
    /// As `ListOffsets` has it: -1 and -2 are no times.
    fn time_ms(self) -> i64 {
        match self {
            Self::End => LATEST,
            Self::Beginning => -2,
            Self::Time(ms) => ms.max(0),
        }
    }
}

impl Placed {
    /// A topic that the cluster has not described yet.
    fn unknown(topic: String) -> Self {
        Self { topic, code: codes::LEADER_NOT_AVAILABLE, said: None, partitions: Vec::new(), is_led: true }
    }

    /// A leader does not let read a partition of the topic. What another leader has said before stays.
    fn fail(&mut self, code: i16, said: Option<&str>) {
        if self.code == codes::NONE {
            (self.code, self.said) = (codes::of_known_topic(code), said.map(str::to_owned));
        }
    }
}

impl Reader {
    /// As [`begin`](Self::begin), for several topics; one that cannot be read is no error. Leaders have `limit` to let
    /// the reader in.
    pub(crate) async fn place(
        &mut self,
        wanted: &[(String, From)],
        leaders: &mut Leaders,
        limit: Duration,
    ) -> Result<Vec<Placed>, KafkaError> {
        let mut placed = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(MOST_TOPICS) {
            placed.extend(self.place_some(wanted, leaders, limit).await?.into_values());
        }
        Ok(placed)
    }

    async fn place_some(
        &mut self,
        wanted: &[(String, From)],
        leaders: &mut Leaders,
        limit: Duration,
    ) -> Result<BTreeMap<String, Placed>, KafkaError> {
        let names: Vec<String> = wanted.iter().map(|(topic, _)| topic.clone()).collect();
        let times: HashMap<&str, i64> = wanted.iter().map(|(topic, from)| (topic.as_str(), from.time_ms())).collect();
        let mut placed: BTreeMap<String, Placed> =
            names.iter().map(|name| (name.clone(), Placed::unknown(name.clone()))).collect();
        let metadata = self.control.metadata(&names).await?;
        self.brokers.extend(metadata.brokers);
        let mut by_leader: BTreeMap<i32, ByTopic> = BTreeMap::new();
        for topic in metadata.topics {
            let Some((found, time_ms)) = placed.get_mut(&topic.name).zip(times.get(&*topic.name)) else { continue };
            found.code = topic.code;
            let mut of_leaders: BTreeMap<i32, Vec<(i32, i64)>> = BTreeMap::new();
            for (number, leader) in (0..).zip(topic.leaders) {
                found.partitions.push(number);
                match leader {
                    Some(leader) => of_leaders.entry(leader).or_default().push((number, *time_ms)),
                    None => found.is_led = false,
                }
            }
            for (leader, partitions) in of_leaders {
                by_leader.entry(leader).or_default().push((topic.name.clone(), partitions));
            }
            self.seen.insert(topic.name, Seen::default());
        }
        let host = |leader: &i32| Some((*leader, self.brokers.get(leader)?.clone()));
        let wanted = by_leader.keys().filter(|leader| !self.channels.contains_key(leader)).filter_map(host).collect();
        let Reached { channels, unreachable } = leaders.reach(&self.config, wanted, limit).await;
        self.channels.extend(channels);
        for (leader, topics) in by_leader {
            let names: Vec<String> = topics.iter().map(|(topic, _)| topic.clone()).collect();
            let why = match unreachable.get(&leader) {
                Some(why) => why.clone(),
                None => match self.offsets(leader, topics, &mut placed).await {
                    Ok(()) => continue,
                    Err(error) => format!("broker {leader}: {error}"),
                },
            };
            for name in names {
                let Some(found) = placed.get_mut(&name) else { continue };
                found.fail(codes::NETWORK_EXCEPTION, Some(&why));
            }
        }
        Ok(placed)
    }

    /// Finds where these partitions of one leader are to be read. Where no record is so new, that is the end.
    async fn offsets(
        &mut self,
        leader: i32,
        mut topics: ByTopic,
        placed: &mut BTreeMap<String, Placed>,
    ) -> Result<(), KafkaError> {
        for is_last in [false, true] {
            let answer = self.ask(leader, &ListOffsets(&topics)).await?;
            topics.clear();
            for (topic, partitions) in answer {
                let Some(found) = placed.get_mut(&topic) else { continue };
                let mut late = Vec::new();
                for (partition, code, offset) in partitions {
                    if code != codes::NONE {
                        found.fail(code, None);
                    } else if offset < 0 && !is_last {
                        late.push((partition, LATEST));
                    } else {
                        let place = Place { leader, offset, end: None, markers: Vec::new() };
                        self.places.insert((topic.clone(), partition), place);
                    }
                }
                if !late.is_empty() {
                    topics.push((topic, late));
                }
            }
            if topics.is_empty() {
                break;
            }
        }
        Ok(())
    }
}
