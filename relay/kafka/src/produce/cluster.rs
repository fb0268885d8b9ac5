//! All topics and brokers of a producer: what leaves to which broker, and what an answer is about. Pure: time is an
//! argument.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use client_socket::Host;

use super::{
    brokers::{Brokers, Sent},
    confirms::{Confirms, Record},
    partition::LostIdentity,
    topic::Topic,
};
use crate::{
    connect::{control::Metadata, error::KafkaError},
    record::{batch::ProducerId, compression::Compression, message::Outgoing},
    wire::{
        codes::{self, Meaning},
        requests::{BatchAnswer, Produce},
    },
};

/// No batch is added to a request of this size.
const MOST_REQUEST_BYTES: usize = 4 << 20;
/// How often the cluster is asked for its topics even if nothing calls for it: they may have grown.
const METADATA_AGE: Duration = Duration::from_secs(10);

/// The place of a partition: its topic's number, and its own.
pub(crate) type Place = (usize, usize);

/// The batches of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) number: i32,
    pub(crate) batches: Vec<(Place, Bytes)>,
}

#[derive(Debug)]
pub(crate) struct Cluster<M> {
    producer: ProducerId,
    compression: Compression,
    topics: BTreeMap<usize, Topic<M>>,
    /// How many topics there were.
    named: usize,
    by_name: HashMap<String, usize>,
    brokers: Brokers,
    /// Partitions with records that wait or are in flight.
    busy: BTreeSet<Place>,
    asked_at: Option<Instant>,
    is_asking: bool,
    pub(crate) out: Confirms,
    /// How many refusals what waits has been looked through for.
    released: u64,
    /// When a batch was last answered, or the first of the present records was handed over; `None`: there are none.
    heard_at: Option<Instant>,
}

impl<M: Outgoing> Cluster<M> {
    pub(crate) fn new(producer: ProducerId, compression: Compression, keeps_order: bool) -> Self {
        Self {
            producer,
            compression,
            topics: BTreeMap::new(),
            named: 0,
            by_name: HashMap::new(),
            brokers: Brokers::default(),
            busy: BTreeSet::new(),
            asked_at: None,
            is_asking: false,
            out: Confirms::new(keeps_order),
            released: 0,
            heard_at: None,
        }
    }

    /// Takes records in their order. `known`: how many refusals the caller knew.
    pub(crate) fn publish(&mut self, messages: Vec<M>, known: u64, now: Instant) {
        // No new record is confirmed before what waits behind the same refusal, and none is forgotten before that.
        if self.out.refusals > self.released {
            self.released = self.out.refusals;
            self.topics.values_mut().for_each(|topic| topic.release_behind(&mut self.out));
        }
        self.out.knows(known);
        let mut turned = BTreeSet::new();
        for message in messages {
            let number = self.topic(message.topic(), now);
            let Some(topic) = self.topics.get_mut(&number) else { continue };
            if turned.insert(number) {
                topic.turn();
            }
            topic.push(Record::new(message, known), now, &mut self.out);
        }
        self.heard_at.get_or_insert(now);
        turned.into_iter().for_each(|number| self.mark_busy(number));
    }

    fn topic(&mut self, name: &str, now: Instant) -> usize {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let number = self.named;
        self.named += 1;
        self.topics.insert(number, Topic::new(name.to_owned(), now));
        self.by_name.insert(name.to_owned(), number);
        number
    }

    fn name(&self, (topic, _): Place) -> &str {
        self.topics.get(&topic).map_or("", |topic| &topic.name)
    }

    fn mark_busy(&mut self, number: usize) {
        let Some(topic) = self.topics.get(&number) else { return };
        for (place, (partition, _)) in topic.partitions.iter().enumerate() {
            if partition.is_idle() {
                self.busy.remove(&(number, place));
            } else {
                self.busy.insert((number, place));
            }
        }
    }

    /// The topics whose metadata are to be asked for now; `None`: no question is due.
    pub(crate) fn asks(&mut self, now: Instant) -> Option<Vec<String>> {
        let is_due = |topic: &Topic<M>| topic.ask_at.is_some_and(|at| at <= now);
        let is_old = self.asked_at.is_none_or(|at| now.duration_since(at) >= METADATA_AGE);
        if self.is_asking || !is_old && !self.topics.values().any(is_due) {
            return None;
        }
        self.is_asking = true;
        if is_old {
            self.forget();
        }
        let mut names = Vec::new();
        for topic in self.topics.values_mut().filter(|topic| topic.is_legal() && (is_old || is_due(topic))) {
            topic.ask_at = Some(now + METADATA_AGE); // if the answer does not name it
            names.push(topic.name.clone());
        }
        Some(names)
    }

    /// Forgets topics that do not exist: whoever emits can name any number of them.
    fn forget(&mut self) {
        let (topics, by_name) = (&mut self.topics, &mut self.by_name);
        topics.retain(|_, topic| {
            let stays = !topic.is_forgettable();
            if !stays {
                by_name.remove(&topic.name);
            }
            stays
        });
    }

    /// The cluster has answered.
    ///
    /// # Errors
    ///
    /// A topic was made again with fewer partitions.
    pub(crate) fn learn(&mut self, metadata: Metadata, now: Instant) -> Result<(), KafkaError> {
        (self.is_asking, self.asked_at) = (false, Some(now));
        self.brokers.learn(metadata.brokers);
        for topic in metadata.topics {
            if let Some(number) = self.by_name.get(&topic.name).copied()
                && let Some(known) = self.topics.get_mut(&number)
            {
                let learned = known.learn(topic, now, &mut self.out);
                learned.map_err(|LostIdentity(why)| KafkaError::LostIdentity(why))?;
                self.mark_busy(number);
            }
        }
        Ok(())
    }

    /// The brokers to connect to now.
    pub(crate) fn connects(&mut self, now: Instant) -> Vec<(i32, Host)> {
        let mut wanted = BTreeSet::new();
        for (topic, place) in &self.busy {
            wanted.extend(self.topics.get(topic).and_then(|topic| topic.partitions.get(*place)?.1));
        }
        self.brokers.connects(wanted, now)
    }

    pub(crate) fn connected(&mut self, id: i32) {
        self.brokers.connected(id);
    }

    /// There is no connection to the broker, or no longer.
    pub(crate) fn disconnected(&mut self, id: i32, now: Instant) {
        for (place, _) in self.brokers.disconnected(id, now) {
            self.with(place, |topic, partition, out| {
                partition.interrupted(out);
                *topic = Some(now);
            });
        }
        // Its partitions may have another leader by now.
        for topic in self.topics.values_mut() {
            if topic.partitions.iter().any(|(_, leader)| *leader == Some(id)) {
                topic.ask_at.get_or_insert(now);
            }
        }
    }

    /// Calls a function on a partition, and on the time at which its topic's metadata are to be asked for.
    fn with<T>(
        &mut self,
        (topic, place): Place,
        act: impl FnOnce(&mut Option<Instant>, &mut super::partition::Partition<M>, &mut Confirms) -> T,
    ) -> Option<T> {
        let topic = self.topics.get_mut(&topic)?;
        let (partition, _) = topic.partitions.get_mut(place)?;
        Some(act(&mut topic.ask_at, partition, &mut self.out))
    }

    /// The next requests, each with its broker.
    pub(crate) fn leaves(&mut self, now: Instant, now_ms: i64) -> Vec<(i32, Leaving)> {
        let mut leaving = Vec::new();
        for id in self.brokers.ids() {
            while self.brokers.has_room(id) {
                let (batches, sent) = self.batches(id, now, now_ms);
                if batches.is_empty() {
                    break;
                }
                leaving.push((id, Leaving { number: self.brokers.leaves(id, sent), batches }));
            }
        }
        leaving
    }

    /// The next batch of each partition that this broker leads, as far as they fit in a request.
    fn batches(&mut self, id: i32, now: Instant, now_ms: i64) -> (Vec<(Place, Bytes)>, Vec<Sent>) {
        let (mut batches, mut sent, mut bytes) = (Vec::new(), Vec::new(), 0);
        for place @ (topic, number) in &self.busy {
            let Some((partition, leader)) =
                self.topics.get_mut(topic).and_then(|topic| topic.partitions.get_mut(*number))
            else {
                continue;
            };
            if *leader != Some(id) || bytes >= MOST_REQUEST_BYTES {
                continue;
            }
            let (producer, compression) = (self.producer, self.compression);
            if let Some((base, batch)) = partition.next_batch(producer, compression, now, now_ms, &mut self.out) {
                bytes += batch.len();
                sent.push((*place, base));
                batches.push((*place, batch));
            }
        }
        (batches, sent)
    }

    /// The request with these batches. `limit_ms`: how long the broker waits for the replicas.
    pub(crate) fn request(&self, leaving: Leaving, limit_ms: i32) -> Produce<'_> {
        let mut topics: Vec<(&str, Vec<(i32, Bytes)>)> = Vec::new();
        let mut last = None;
        for (place @ (topic, partition), batch) in leaving.batches {
            if last.replace(topic) != Some(topic) {
                topics.push((self.name(place), Vec::new()));
            }
            if let Some((_, batches)) = topics.last_mut() {
                batches.push((i32::try_from(partition).unwrap_or(i32::MAX), batch));
            }
        }
        Produce { limit_ms, topics }
    }

    /// A broker has answered a request, in which it names these partitions.
    pub(crate) fn answered(
        &mut self,
        id: i32,
        number: i32,
        mut answers: Vec<BatchAnswer>,
        now: Instant,
    ) -> Result<(), KafkaError> {
        let Some(batches) = self.brokers.answered(id, number) else {
            return Err(KafkaError::Protocol("an answer to no request".to_owned()));
        };
        for (place, base) in batches {
            let name = self.name(place);
            let is_it = |answer: &BatchAnswer| answer.topic == name && usize::try_from(answer.partition) == Ok(place.1);
            let Some(answer) = answers.iter().position(is_it).map(|found| answers.swap_remove(found)) else {
                return Err(KafkaError::Protocol("an answer without a batch of its request".to_owned()));
            };
            let meaning = Meaning::of(answer.code);
            if meaning == Meaning::Closed {
                let error = codes::name(answer.code);
                return Err(KafkaError::Refused { request: "produce", code: answer.code, error });
            }
            let took = self.with(place, |ask_at, partition, out| {
                if matches!(meaning, Meaning::Unknown | Meaning::NoTopic) {
                    ask_at.get_or_insert(now);
                }
                partition.answered(base, answer, now, out)
            });
            if let Some(Err(LostIdentity(why))) = took {
                return Err(KafkaError::LostIdentity(why));
            }
            if meaning != Meaning::Unknown {
                self.heard_at = Some(now);
            }
            if let Some(topic) = self.topics.get_mut(&place.0) {
                topic.grow(&mut self.out);
            }
            self.mark_busy(place.0);
        }
        Ok(())
    }

    /// Since when nothing has been heard although records wait; `None`: none do.
    pub(crate) fn silent_since(&mut self) -> Option<Instant> {
        if self.busy.is_empty() && self.topics.values().all(|topic| !topic.waits()) {
            self.heard_at = None;
        }
        self.heard_at
    }

    /// When the next of the things above is due that is not due yet.
    pub(crate) fn wake_at(&self, now: Instant) -> Instant {
        let ask = self.asked_at.map(|at| at + METADATA_AGE).filter(|_| !self.is_asking);
        let topics = self.topics.values().filter(|_| !self.is_asking).filter_map(|topic| topic.ask_at);
        let pauses = self.busy.iter().filter_map(|(topic, place)| {
            self.topics.get(topic).and_then(|topic| topic.partitions.get(*place)?.0.pause_until())
        });
        let brokers = self.brokers.reconnects().filter(|_| !self.busy.is_empty());
        let times = ask.into_iter().chain(topics).chain(brokers).chain(pauses);
        times.filter(|at| *at > now).min().unwrap_or(now + METADATA_AGE)
    }
}
