//! A partition against a broker that numbers records as Kafka does, takes what it likes, and loses answers.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::produce::confirm::{Confirm, ConfirmKind};

const PRODUCER: ProducerId = ProducerId { id: 7, epoch: 0 };

/// What no compression makes smaller.
static NOISE: [u8; 2000] = {
    let (mut noise, mut place, mut state) = ([0; 2000], 0, 1_u32);
    while place < noise.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise[place] = (state >> 24) as u8;
        place += 1;
    }
    noise
};

#[derive(Clone, Debug)]
struct Message {
    number: u32,
    key: Option<String>,
    /// The broker takes no batch with it.
    is_invalid: bool,
    is_large: bool,
}

impl Outgoing for Message {
    type Mark = ();

    fn id(&self) -> Uuid {
        Uuid::from_u128(self.number.into())
    }

    fn topic(&self) -> &'static str {
        "t"
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(String::as_bytes)
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(Some(match (self.is_invalid, self.is_large) {
            (true, _) => b"invalid",
            (_, true) => &NOISE,
            _ => b"fine",
        }))
    }

    fn put_headers(&self, headers: &mut crate::Headers<'_>) -> Result<(), String> {
        headers.put("number", self.number.to_string().as_bytes());
        Ok(())
    }
}

/// The broker: what it has, and how it answers.
#[derive(Default)]
struct Broker {
    /// Numbers of the messages in its log.
    log: Vec<u32>,
    /// The number that the next batch must have; `None`: it does not know the producer.
    expected: Option<i32>,
    /// The latest batches: first and last number.
    latest: VecDeque<i32>,
    names_culprits: bool,
    is_short_of_replicas: bool,
}

impl Broker {
    fn take(&mut self, batch: &Bytes) -> BatchAnswer {
        let records = RecordBatchDecoder::decode(&mut batch.clone()).unwrap().records;
        let base = records[0].sequence;
        let code = |code| BatchAnswer { code, ..BatchAnswer::default() };
        if self.is_short_of_replicas {
            return code(19);
        }
        let values: Vec<_> = records.iter().map(|record| record.value.clone().unwrap()).collect();
        if batch.len() > 1000 && values.iter().any(|value| value.len() > 1000) || batch.len() > 1500 {
            return code(10);
        }
        let culprits: Vec<usize> = (0..values.len()).filter(|place| values[*place] == "invalid").collect();
        if !culprits.is_empty() {
            let named =
                culprits.into_iter().filter(|_| self.names_culprits).map(|place| (i32::try_from(place).unwrap(), None));
            return BatchAnswer { code: 87, culprits: named.collect(), ..BatchAnswer::default() };
        }
        if self.latest.contains(&base) {
            return code(0);
        }
        if self.expected.is_some_and(|expected| expected != base) {
            return code(45);
        }
        for record in &records {
            let number = record.headers.values().next().unwrap().clone().unwrap();
            self.log.push(std::str::from_utf8(&number).unwrap().parse().unwrap());
        }
        self.expected = Some(advance(base, records.len()));
        self.latest.push_back(base);
        if self.latest.len() > 5 {
            self.latest.pop_front();
        }
        code(0)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u8, bool, bool),
    Send,
    Arrive,
    /// An answer reaches the producer; `false`: as unknown.
    Answer(bool),
    Cut,
    Fetch,
    Replicas(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..4, prop::bool::weighted(0.06), prop::bool::weighted(0.04)).prop_map(|(key, invalid, large)| Step::Publish(key, invalid, large)),
        6 => Just(Step::Send),
        6 => Just(Step::Arrive),
        6 => prop::bool::weighted(0.9).prop_map(Step::Answer),
        1 => Just(Step::Cut),
        3 => Just(Step::Fetch),
        1 => prop::bool::weighted(0.3).prop_map(Step::Replicas),
    ];
    prop::collection::vec(step, 1..400)
}

/// The world of one partition.
struct World {
    partition: Partition<Message>,
    compression: Compression,
    broker: Broker,
    out: Confirms,
    now: Instant,
    /// Batches on their way, and answers on their way back.
    way: VecDeque<(i32, Bytes)>,
    answers: VecDeque<(i32, BatchAnswer)>,
    next: u32,
    known: u64,
    confirmed: BTreeMap<u32, ConfirmKind>,
    /// What the caller publishes again, by key: everything from the first that was behind on.
    order: Vec<u32>,
    messages: BTreeMap<u32, Message>,
}

impl World {
    fn new(names_culprits: bool, compression: Compression) -> Self {
        Self {
            partition: Partition::new(),
            compression,
            broker: Broker { names_culprits, ..Broker::default() },
            out: Confirms::new(true),
            now: Instant::now(),
            way: VecDeque::new(),
            answers: VecDeque::new(),
            next: 0,
            known: 0,
            confirmed: BTreeMap::new(),
            order: Vec::new(),
            messages: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(key, is_invalid, is_large) => {
                let key = (*key > 0).then(|| format!("k{key}"));
                let message =
                    Message { number: self.next, key, is_invalid: *is_invalid, is_large: *is_large && !is_invalid };
                self.next += 1;
                self.messages.insert(message.number, message.clone());
                if let Some(record) = self.out.unless_behind(Record::new(message, self.known)) {
                    self.partition.push(record);
                }
            }
            Step::Send => {
                self.now += Duration::from_secs(2); // past every pause
                let (now, out) = (self.now, &mut self.out);
                if let Some(batch) = self.partition.next_batch(PRODUCER, self.compression, now, 0, out) {
                    self.way.push_back(batch);
                    assert!(self.way.len() + self.answers.len() <= MOST_FLIGHTS);
                }
            }
            Step::Arrive => {
                if let Some((base, batch)) = self.way.pop_front() {
                    self.answers.push_back((base, self.broker.take(&batch)));
                }
            }
            Step::Answer(is_certain) => {
                if let Some((base, answer)) = self.answers.pop_front() {
                    let answer = if *is_certain { answer } else { BatchAnswer { code: 7, ..BatchAnswer::default() } };
                    self.partition.answered(base, answer, self.now, &mut self.out).unwrap();
                }
            }
            Step::Cut => {
                // What is on its way arrives or not; no answer comes back.
                self.way.truncate(self.way.len() / 2);
                while let Some((_, batch)) = self.way.pop_front() {
                    self.broker.take(&batch);
                }
                self.answers.clear();
                self.partition.interrupted(&mut self.out);
            }
            Step::Fetch => self.fetch(),
            Step::Replicas(are_missing) => self.broker.is_short_of_replicas = *are_missing,
        }
    }

    /// The caller learns what has become of records.
    fn fetch(&mut self) {
        for Confirm { id, kind } in std::mem::take(&mut self.out.ready) {
            let number = u32::try_from(id.as_u128()).unwrap();
            let earlier = self.confirmed.insert(number, kind);
            assert_eq!(earlier, None, "{number} is confirmed once");
            self.order.push(number);
        }
        self.known = self.out.refusals;
        self.out.knows(self.known);
    }

    /// Lets everything come to its end.
    fn end(&mut self) {
        self.broker.is_short_of_replicas = false;
        for _ in 0..20_000 {
            if self.partition.is_idle() {
                break;
            }
            for step in [Step::Send, Step::Arrive, Step::Answer(true), Step::Fetch] {
                self.step(&step);
            }
        }
        self.fetch();
        assert!(self.partition.is_idle(), "{:?}", self.partition);
    }

    fn check(&self) {
        let log: HashSet<u32> = self.broker.log.iter().copied().collect();
        assert_eq!(log.len(), self.broker.log.len(), "nothing is written twice: {:?}", self.broker.log);
        assert_eq!(self.confirmed.len(), self.messages.len(), "each is confirmed");
        for (number, kind) in &self.confirmed {
            assert_eq!(*kind == ConfirmKind::Taken, log.contains(number), "{number}: {kind:?}");
            let message = &self.messages[number];
            match kind {
                ConfirmKind::Refused(_) => assert!(message.is_invalid || message.is_large, "{number} is good"),
                ConfirmKind::Taken => assert!(!message.is_invalid && !message.is_large),
                _ => {}
            }
        }
        for key in ["k1", "k2", "k3"] {
            let of_key = |number: &u32| self.messages[number].key.as_deref() == Some(key);
            let written: Vec<u32> = self.broker.log.iter().copied().filter(of_key).collect();
            assert!(written.is_sorted(), "{key}: {written:?}");
            let confirmed: Vec<u32> = self.order.iter().copied().filter(of_key).collect();
            assert!(confirmed.is_sorted(), "{key} is confirmed in order: {confirmed:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_record_has_a_certain_confirm_and_no_key_is_written_out_of_order_or_twice(
        steps in steps(),
        names_culprits: bool,
        is_compressed: bool,
    ) {
        let mut world =
            World::new(names_culprits, if is_compressed { Compression::Lz4 } else { Compression::None });
        steps.iter().for_each(|step| world.step(step));
        world.end();
        world.check();
    }
}

#[test]
fn one_bad_record_costs_the_others_one_round_trip_if_it_is_named() {
    let mut world = World::new(true, Compression::None);
    for number in 0..100 {
        world.step(&Step::Publish(1 + number % 3, number == 50, false));
    }
    let mut round_trips = 0;
    while !world.partition.is_idle() {
        [Step::Send, Step::Arrive, Step::Answer(true)].iter().for_each(|step| world.step(step));
        round_trips += 1;
        assert!(round_trips < 10);
    }
    world.fetch();
    let taken = world.confirmed.values().filter(|kind| **kind == ConfirmKind::Taken).count();
    assert!(round_trips <= 4 && taken >= 80, "{round_trips} round trips, {taken} taken");
}

#[test]
fn until_the_broker_knows_the_producer_one_batch_is_in_flight() {
    let mut world = World::new(true, Compression::None);
    for _ in 0..3 {
        world.step(&Step::Publish(0, false, false));
        world.step(&Step::Send);
    }
    assert_eq!(world.way.len(), 1, "a broker that does not know the producer would take the second without the first");
    [Step::Arrive, Step::Answer(true)].iter().for_each(|step| world.step(step));
    for _ in 0..8 {
        world.step(&Step::Publish(0, false, false));
        world.step(&Step::Send);
    }
    assert_eq!(world.way.len(), MOST_FLIGHTS);
}

#[test]
fn a_batch_that_is_too_large_although_it_is_compressed_is_halved_by_what_is_in_it() {
    for compression in [Compression::None, Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let mut world = World::new(true, compression);
        for _ in 0..1000 {
            world.step(&Step::Publish(1, false, false));
        }
        let mut sizes: Vec<usize> = Vec::new();
        let limit = |sizes: &[usize]| sizes[0] / 3;
        while !world.partition.is_idle() {
            world.step(&Step::Send);
            let (base, batch) = world.way.pop_front().unwrap();
            sizes.push(batch.len());
            let code = if batch.len() > limit(&sizes) { 10 } else { 0 };
            let answer = BatchAnswer { code, ..BatchAnswer::default() };
            world.partition.answered(base, answer, world.now, &mut world.out).unwrap();
        }
        let (taken, too_large): (Vec<usize>, Vec<usize>) = sizes.iter().partition(|size| **size <= limit(&sizes));
        let largest = taken.iter().max().copied().unwrap_or_default();
        assert!(too_large.len() <= 3 && largest > limit(&sizes) / 2, "{compression:?}: {sizes:?}");
    }
}
