//! The fuzzer's brokers (see `fuzz/README.md`): they answer anything at all.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use client_socket::{Host, fuzz::server};
use uuid::Uuid;

use crate::{
    Compression, KafkaError, Outgoing,
    connect::{
        channel::read_frame,
        control::{Metadata, TopicMetadata},
        scram::{Hash, Scram},
    },
    consume::batches,
    produce::{cluster::Cluster, confirm::ConfirmKind},
    record::batch::ProducerId,
    wire::{
        codec::{Malformed, Reader},
        requests::{self, BatchAnswer, Request},
    },
};

/// Plays one input: a byte that says what is played, one that says how, and what the broker says.
pub fn broker(data: &[u8]) {
    let [what, how, said @ ..] = data else { return };
    match what % 4 {
        0 => answers(said, what >> 2, usize::from(*how) + 1),
        1 => fetched(said, *how),
        2 => cluster(said, how & 1 == 0),
        _ => login(said),
    }
}

/// Reads frames as answers to a request of this number, at most so many bytes of them at once.
fn answers(said: &[u8], request: u8, piece: usize) {
    let mut socket = server(said, piece);
    loop {
        let Poll::Ready(frame) = pin!(read_frame(&mut socket)).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("all that the broker says is there")
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                return assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData), "{error}");
            }
        };
        assert!(frame.len() <= said.len(), "bytes from nowhere");
        let _ = answer(request, &mut Reader(frame));
    }
}

fn answer(request: u8, from: &mut Reader) -> Result<(), Malformed> {
    match request % 11 {
        0 => requests::ApiVersions::answer(from).map(drop),
        1 => requests::SaslHandshake::answer(from).map(drop),
        2 => requests::SaslAuthenticate::answer(from).map(drop),
        3 => requests::Metadata::answer(from).map(drop),
        4 => requests::FindCoordinator::answer(from).map(drop),
        5 => requests::InitProducerId::answer(from).map(drop),
        6 => requests::Produce::answer(from).map(drop),
        7 => requests::ListOffsets::answer(from).map(drop),
        8 => requests::AddPartitionsToTxn::answer(from).map(drop),
        9 => requests::EndTxn::answer(from).map(drop),
        _ => requests::Fetch::answer(from).map(drop),
    }
}

/// Reads batches: the broker's bytes, or one whole batch whose records they are, as they are or compressed.
fn fetched(said: &[u8], how: u8) {
    let compression = match (how >> 4) % 3 {
        0 => Compression::Gzip,
        1 => Compression::Lz4,
        _ => Compression::Zstd,
    };
    let bytes = match how & 3 {
        0 => Bytes::copy_from_slice(said),
        1 => batch(i16::from(how >> 2 & 7), said),
        _ => match compression.compress(said) {
            Some(records) => batch(compression.number(), &records),
            None => batch(0, said),
        },
    };
    let mut taken = 0;
    if let Ok(batches) = batches::read(bytes, &mut taken) {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers = |record: &batches::Record| record.headers.iter().map(|(_, value)| length(value)).sum::<usize>();
        let read = batches.records.iter().map(|record| length(&record.key) + length(&record.value) + headers(record));
        assert!(read.sum::<usize>() <= taken, "more was read than counted");
    }
}

/// A batch with these records, which are compressed by the kind of this number.
fn batch(kind: i16, records: &[u8]) -> Bytes {
    const BEHIND_LENGTH: usize = 49;
    let mut batch = BytesMut::new();
    batch.put_i64(40);
    batch.put_i32(i32::try_from(BEHIND_LENGTH + records.len()).unwrap_or(0));
    batch.put_bytes(0, 9);
    batch.put_i16(kind);
    batch.put_bytes(0, BEHIND_LENGTH - 11);
    batch.put_slice(records);
    batch.freeze()
}

/// Logs in by SCRAM. The broker's two messages are a line each.
fn login(said: &[u8]) {
    let text = String::from_utf8_lossy(said);
    if text.split(|letter: char| !letter.is_ascii_digit()).any(|number| number.len() > 3) {
        return; // it may ask for a million iterations, which take their time
    }
    let (first, last) = text.split_once('\n').unwrap_or((&text, ""));
    let (scram, _) = Scram::begin(Hash::Sha256, "app", "hunter2", "nonce");
    if let Ok((proved, _)) = scram.prove(first) {
        assert!(proved.check(last).is_err() || !last.is_empty(), "nothing is no proof");
    }
}

/// A record that has little but its id.
#[derive(Debug)]
struct Note {
    id: Uuid,
    topic: &'static str,
    key: Option<[u8; 1]>,
}

impl Outgoing for Note {
    type Mark = ();

    fn id(&self) -> Uuid {
        self.id
    }

    fn topic(&self) -> &str {
        self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(|key| &key[..])
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(None)
    }
}

const TOPICS: [&str; 2] = ["a", "b"];
const MOST_PARTITIONS: usize = 3;

fn topic(byte: u8) -> &'static str {
    TOPICS.get(usize::from(byte % 3)).copied().unwrap_or("no/topic")
}

/// A producer whose brokers answer what they like, and the records without a confirm.
struct World {
    cluster: Cluster<Note>,
    now: Instant,
    published: u128,
    /// Records without a confirm, by topic and key, each with the refusals that the caller knew.
    unconfirmed: BTreeMap<(&'static str, u8), BTreeMap<Uuid, u64>>,
    /// The latest refusal of each topic and key.
    refused: BTreeMap<(&'static str, u8), u64>,
    keeps_order: bool,
    /// How many refusals the caller could know, and how many it says it knows.
    refusals: u64,
    known: u64,
    requests: Vec<Sent>,
}

/// A request without an answer.
struct Sent {
    broker: i32,
    number: i32,
    places: Vec<(String, i32)>,
}

/// Each record has one confirm, unless the producer ends; whatever has happened, once the brokers answer properly.
fn cluster(mut said: &[u8], keeps_order: bool) {
    let mut world = World {
        cluster: Cluster::new(ProducerId { id: 7, epoch: 0 }, Compression::None, keeps_order),
        now: Instant::now(),
        published: 0,
        unconfirmed: BTreeMap::new(),
        refused: BTreeMap::new(),
        keeps_order,
        refusals: 0,
        known: 0,
        requests: Vec::new(),
    };
    while let Ok(step) = said.try_get_u8() {
        if world.step(step, &mut said).is_err() {
            return;
        }
    }
    for _ in 0..1000 {
        if world.unconfirmed.values().all(BTreeMap::is_empty) || world.all_is_well().is_err() {
            return;
        }
    }
    panic!("never confirmed: {:?}; {:?}", world.unconfirmed, world.cluster);
}

impl World {
    fn step(&mut self, step: u8, said: &mut &[u8]) -> Result<(), KafkaError> {
        let mut byte = || said.try_get_u8().unwrap_or_default();
        match step % 8 {
            0 => self.publish(topic(byte()), byte() % 4, byte()),
            1 => {
                let leader = |byte: u8| match byte % 4 {
                    0 => None,
                    id => Some(i32::from(id)),
                };
                let leaders = (0..usize::from(byte()) % (MOST_PARTITIONS + 1)).map(|_| leader(byte())).collect();
                let name = topic(byte()).to_owned();
                self.learn(vec![TopicMetadata { name, code: i16::from(byte()) - 1, leaders }])?;
            }
            2 => self.connect(),
            3 => {
                let id = i32::from(byte() % 4);
                self.requests.retain(|sent| sent.broker != id);
                self.cluster.disconnected(id, self.now);
            }
            4 => self.send(),
            5 if !self.requests.is_empty() => {
                let request = usize::from(byte()) % self.requests.len();
                self.answer(request, |_| (i16::from(byte()) - 1, i32::from(byte() % 4)))?;
            }
            6 => self.now += Duration::from_millis(u64::from(byte()) * 20),
            _ => {
                let answer = BatchAnswer { topic: "a".to_owned(), code: i16::from(byte()), ..BatchAnswer::default() };
                self.cluster.answered(i32::from(byte() % 4), i32::from(byte() % 4), vec![answer], self.now)?;
            }
        }
        self.fetch();
        Ok(())
    }

    fn publish(&mut self, topic: &'static str, key: u8, known: u8) {
        let note = Note { id: Uuid::from_u128(self.published), topic, key: (key > 0).then_some([key]) };
        self.published += 1;
        self.known = self.known.max(self.refusals.min(known.into()));
        self.unconfirmed.entry((topic, key)).or_default().insert(note.id, self.known);
        self.cluster.publish(vec![note], self.known, self.now);
    }

    fn learn(&mut self, topics: Vec<TopicMetadata>) -> Result<(), KafkaError> {
        self.cluster.asks(self.now);
        let brokers = (1..4).map(|id| (id, Host { name: id.to_string(), port: 9092 })).collect();
        self.cluster.learn(Metadata { brokers, topics }, self.now)
    }

    fn connect(&mut self) {
        for (id, _) in self.cluster.connects(self.now) {
            self.cluster.connected(id);
        }
    }

    fn send(&mut self) {
        for (broker, leaving) in self.cluster.leaves(self.now, 0) {
            let number = leaving.number;
            let request = self.cluster.request(leaving, 0);
            let places = |(topic, batches): &(&str, Vec<(i32, Bytes)>)| {
                batches.iter().map(|(partition, _)| ((*topic).to_owned(), *partition)).collect::<Vec<_>>()
            };
            let places = request.topics.iter().flat_map(places).collect();
            self.requests.push(Sent { broker, number, places });
        }
    }

    /// A request is answered, each batch with a code and a record to blame.
    fn answer(&mut self, request: usize, mut says: impl FnMut(&str) -> (i16, i32)) -> Result<(), KafkaError> {
        let Sent { broker, number, places } = self.requests.remove(request);
        let answer = |(topic, partition): (String, i32)| {
            let (code, culprit) = says(&topic);
            BatchAnswer { topic, partition, code, text: None, culprits: vec![(culprit, None)] }
        };
        self.cluster.answered(broker, number, places.into_iter().map(answer).collect(), self.now)
    }

    /// A moment in which the brokers answer as they should.
    fn all_is_well(&mut self) -> Result<(), KafkaError> {
        self.now += Duration::from_secs(2);
        let topic =
            |name: &str| TopicMetadata { name: name.to_owned(), code: 0, leaders: vec![Some(1); MOST_PARTITIONS] };
        self.learn(TOPICS.iter().map(|name| topic(name)).collect())?;
        self.connect();
        self.send();
        while !self.requests.is_empty() {
            self.answer(0, |_| (0, 0))?;
        }
        self.fetch();
        Ok(())
    }

    fn fetch(&mut self) {
        for confirm in std::mem::take(&mut self.cluster.out.ready) {
            let mut of_keys = self.unconfirmed.iter_mut();
            let found = of_keys.find(|(_, records)| records.contains_key(&confirm.id));
            let Some((of, records)) = found else { panic!("{confirm:?} is one too many") };
            let is_ordered = self.keeps_order && of.1 > 0;
            let is_next = records.keys().next() == Some(&confirm.id);
            assert!(is_next || !is_ordered, "{confirm:?} overtakes an earlier one: {:?}", self.cluster);
            let known = records.remove(&confirm.id);
            let is_behind = is_ordered && known < self.refused.get(of).copied();
            match confirm.kind {
                ConfirmKind::Taken => assert!(!is_behind, "{confirm:?} is behind: {:?}", self.cluster),
                ConfirmKind::Behind => assert!(is_behind, "{confirm:?} is behind nothing: {:?}", self.cluster),
                _ => {
                    self.refusals += 1;
                    self.refused.insert(*of, self.refusals);
                }
            }
        }
        assert_eq!(self.refusals, self.cluster.out.refusals);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn every_seed_of_the_fuzzer_keeps_the_promises() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/broker");
        let played: Vec<_> =
            std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path())).collect();
        assert!(played.len() > 20, "{}", played.len());
        played.into_iter().for_each(|seed| super::broker(&seed.unwrap()));
    }

    proptest! {
        #[test]
        fn brokers_that_answer_anything_keep_the_promises(what: u8, how: u8, said in prop::collection::vec(any::<u8>(), 0..400)) {
            super::broker(&[&[what, how], &said[..]].concat());
        }
    }
}
