//! What earlier producers with the same name have written, read once none of them can write any more.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{Receiver, Sender};

use super::{
    fence::{self, fence},
    reader::{From, Placed, Reader, leaders::Leaders},
};
use crate::{
    config::ProduceConfig,
    connect::{
        control::Control,
        error::{ConnectError, KafkaError},
    },
    produce::confirm::Reason,
    record::{batch::ProducerId, fetched::Fetched, message::Outgoing},
    wire::codes::{self, Meaning},
};

/// How long a broker waits for a record before it answers that there is none.
const WAIT: Duration = Duration::from_millis(50);
/// How long a topic may show nothing new before it is given up: its replicas may be too few for the marker. As long are
/// the leaders waited for.
const LIMIT: Duration = Duration::from_secs(2);

/// A topic that was read back.
#[derive(Debug)]
pub struct TopicRead<T> {
    /// The topic.
    pub topic: String,
    /// The [marks](Outgoing::mark) of its records.
    pub marks: Vec<T>,
    /// How far the topic was read.
    pub extent: Extent,
    /// Why earlier producers with the same name can still write into it; `None`: they cannot.
    pub unfenced: Option<String>,
}

/// How far a topic was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that earlier producers have written since the time that was asked for.
    Whole,
    /// Not all can be read, for this reason.
    Part(String),
    /// Nothing is known, for this reason, which may go away.
    Failed(Reason),
}

/// A topic that is to be read, and from where on.
pub(crate) type Wanted = (String, From);

/// Who reads.
pub(crate) struct ReadBack<M: Outgoing> {
    config: ProduceConfig,
    producer: ProducerId,
    /// The producer's name, or why it has none.
    name: Result<String, String>,
    control: Control,
    reads: Sender<TopicRead<M::Mark>>,
    /// Topics that are being read.
    open: BTreeMap<String, Open<M::Mark>>,
    /// Topics whose marker was ordered for so many partitions, and was not seen in all of them.
    ordered: BTreeMap<String, usize>,
    leaders: Leaders,
}

/// A topic that is being read.
struct Open<T> {
    /// What was found so far.
    marks: Vec<T>,
    /// Who has a marker there, behind which earlier producers write nothing; `None`: the topic has no marker.
    marker: Option<ProducerId>,
    /// As [`TopicRead::unfenced`].
    unfenced: Option<String>,
}

impl<M: Outgoing> ReadBack<M> {
    pub(crate) fn new(
        config: ProduceConfig,
        producer: ProducerId,
        name: Result<String, String>,
        reads: Sender<TopicRead<M::Mark>>,
    ) -> Self {
        let control = Control::new(config.clone());
        Self {
            config,
            producer,
            name,
            control,
            reads,
            open: BTreeMap::new(),
            ordered: BTreeMap::new(),
            leaders: Leaders::default(),
        }
    }

    /// Reads topics until nobody asks any more. Those that are asked for meanwhile are read together.
    ///
    /// # Errors
    ///
    /// Another producer has taken the name.
    pub(crate) async fn run(mut self, mut wanted: Receiver<Wanted>) -> Result<(), KafkaError> {
        while let Some(first) = wanted.recv().await {
            let mut topics = vec![first];
            while let Ok(more) = wanted.try_recv() {
                topics.push(more);
            }
            let open = |(topic, _): &Wanted| (topic.clone(), Open { marks: Vec::new(), marker: None, unfenced: None });
            self.open = topics.iter().map(open).collect();
            match self.read(topics).await {
                Ok(()) => {}
                Err(error @ KafkaError::LostIdentity(_)) => return Err(error),
                Err(error) => self.fail(codes::UNKNOWN_SERVER_ERROR, &error.to_string()).await,
            }
        }
        Ok(())
    }

    async fn read(&mut self, topics: Vec<Wanted>) -> Result<(), KafkaError> {
        let last = |error: ConnectError| error.failures.into_iter().next_back().map(|(_, error)| error);
        let mut reader = Reader::connect(self.config.clone())
            .await
            .map_err(|error| last(error).unwrap_or_else(KafkaError::nowhere))?;
        let mut parts = Vec::new();
        for Placed { topic, code, said, partitions, is_led } in reader.place(&topics, &mut self.leaders, LIMIT).await? {
            match code {
                codes::NONE if is_led => parts.push((topic, partitions)),
                codes::NONE => self.refused(&mut reader, &topic, codes::LEADER_NOT_AVAILABLE, None).await,
                code => self.refused(&mut reader, &topic, code, said).await,
            }
        }
        self.order_markers(parts).await?;
        let (mut at, mut bytes) = (Instant::now(), 0);
        while !self.open.is_empty() {
            let open = &mut self.open;
            let show = |record: Fetched| {
                if let Some(open) = open.get_mut(&record.topic) {
                    open.marks.extend(M::mark(&record));
                }
            };
            for (topic, code) in reader.step(WAIT, show).await? {
                self.refused(&mut reader, &topic, codes::of_known_topic(code), None).await;
            }
            let read = self.look(&mut reader).await;
            if read != bytes {
                (at, bytes) = (Instant::now(), read);
            } else if at.elapsed() > LIMIT {
                self.fail(codes::NOT_ENOUGH_REPLICAS, "the replicas in sync do not have all that was written").await;
            }
        }
        Ok(())
    }

    /// Has the cluster write markers into these topics. A marker that was not seen is ordered once more: the cluster
    /// may have dropped it, or the reading begins behind it.
    async fn order_markers(&mut self, topics: Vec<(String, Vec<i32>)>) -> Result<(), KafkaError> {
        let is_ordered = |topic: &String, partitions: &[i32]| self.ordered.get(topic) == Some(&partitions.len());
        let again: Vec<bool> = topics.iter().map(|(topic, partitions)| is_ordered(topic, partitions)).collect();
        // Other topics wait meanwhile: what is ordered again is not worth it.
        let limit = if again.contains(&false) { fence::LIMIT } else { Duration::ZERO };
        let without = match &self.name {
            Err(why) => Err((why.clone(), false)),
            Ok(name) => match fence(&mut self.control, name, self.producer, topics.clone(), limit).await {
                Ok(without) => Ok(without),
                // Neither a missing right nor a topic whose replicas are too few for a marker holds up the others.
                Err(KafkaError::Refused { error, code, .. }) => Err((error, codes::is_transient(code))),
                Err(error) => return Err(error),
            },
        };
        for ((topic, partitions), again) in topics.into_iter().zip(again) {
            let Some(open) = self.open.get_mut(&topic) else { continue };
            match &without {
                Ok(without) if without.contains(&topic) => {} // no producer of this user writes there
                Ok(_) => {
                    open.marker = Some(self.producer);
                    self.ordered.insert(topic, partitions.len());
                }
                // The earlier order may still be carried out.
                Err((_, true)) if again => open.marker = Some(self.producer),
                Err((why, _)) => open.unfenced = Some(why.clone()),
            }
        }
        Ok(())
    }

    /// Ends with the topics that were read far enough. Returns how many bytes the others have shown.
    async fn look(&mut self, reader: &mut Reader) -> u64 {
        let (mut bytes, mut ended) = (0, Vec::new());
        for (topic, open) in &self.open {
            let seen = reader.seen(topic);
            if seen.bytes > self.config.read_back {
                let why = format!("it has more than {} bytes of that time", self.config.read_back);
                ended.push((topic.clone(), Extent::Part(why)));
            } else if seen.unreadable > 0 {
                ended.push((topic.clone(), Extent::Part("it has batches that cannot be read".to_owned())));
            } else if reader.is_read(topic, open.marker) {
                self.ordered.remove(topic);
                ended.push((topic.clone(), Extent::Whole));
            } else {
                bytes += seen.bytes;
            }
        }
        for (topic, extent) in ended {
            self.done(reader, &topic, extent).await;
        }
        bytes
    }

    /// A broker does not let read the topic.
    async fn refused(&mut self, reader: &mut Reader, topic: &str, code: i16, said: Option<String>) {
        let name = codes::name(code);
        let extent = match Meaning::of(code) {
            Meaning::NoTopic => {
                self.ordered.remove(topic);
                Extent::Whole
            }
            Meaning::Refused if code == codes::INVALID_TOPIC_EXCEPTION => Extent::Whole, // no topic has such a name
            Meaning::Refused => Extent::Part(name),
            _ => Extent::Failed(Reason { code, text: said.map_or(name.clone(), |said| format!("{name}: {said}")) }),
        };
        self.done(reader, topic, extent).await;
    }

    async fn done(&mut self, reader: &mut Reader, topic: &str, extent: Extent) {
        reader.leave(topic);
        if let Some((topic, open)) = self.open.remove_entry(topic) {
            self.tell(topic, open, extent).await;
        }
    }

    /// Gives up what is not read yet.
    async fn fail(&mut self, code: i16, why: &str) {
        for (topic, open) in std::mem::take(&mut self.open) {
            self.tell(topic, open, Extent::Failed(Reason { code, text: why.to_owned() })).await;
        }
    }

    async fn tell(&mut self, topic: String, Open { marks, unfenced, .. }: Open<M::Mark>, extent: Extent) {
        let _ = self.reads.send(TopicRead { topic, marks, extent, unfenced }).await;
    }
}
