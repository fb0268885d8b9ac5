use uuid::Uuid;

use super::*;
use crate::{
    connect::control::TopicMetadata,
    produce::confirm::{Confirm, ConfirmKind},
};

#[derive(Debug)]
struct Note {
    number: u32,
    topic: String,
    key: Option<&'static str>,
}

impl Outgoing for Note {
    type Mark = ();

    fn id(&self) -> Uuid {
        Uuid::from_u128(self.number.into())
    }

    fn topic(&self) -> &str {
        &self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.map(str::as_bytes)
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(None)
    }
}

/// A cluster with one broker, and the time.
struct World {
    cluster: Cluster<Note>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self { cluster: Cluster::new(ProducerId { id: 7, epoch: 0 }, Compression::None, true), now: Instant::now() }
    }

    /// Record 1 is in flight to the one partition of topic `t`, in the request with this number.
    fn with_record_in_flight() -> (Self, i32) {
        let mut world = Self::new();
        world.publish(1, "t");
        world.learn("t", 0, &[Some(1)]).unwrap();
        world.connect();
        let number = world.cluster.leaves(world.now, 0)[0].1.number;
        (world, number)
    }

    fn publish(&mut self, number: u32, topic: &str) {
        let note = Note { number, topic: topic.to_owned(), key: Some("k") };
        self.cluster.publish(vec![note], 0, self.now);
    }

    /// The cluster answers the question that is due.
    fn learn(&mut self, topic: &str, code: i16, leaders: &[Option<i32>]) -> Result<(), KafkaError> {
        self.cluster.asks(self.now).expect("a question is due");
        let topics = vec![TopicMetadata { name: topic.to_owned(), code, leaders: leaders.to_vec() }];
        let brokers = vec![(1, Host { name: "a".to_owned(), port: 9092 })];
        self.cluster.learn(Metadata { brokers, topics }, self.now)
    }

    fn connect(&mut self) {
        assert_eq!(self.cluster.connects(self.now).len(), 1);
        self.cluster.connected(1);
    }

    /// What leaves now is answered so.
    fn answer(&mut self, topic: &str, code: i16) {
        let leaving = self.cluster.leaves(self.now, 0);
        let [(1, Leaving { number, .. })] = leaving.as_slice() else { panic!("{leaving:?}") };
        let answer = BatchAnswer { topic: topic.to_owned(), partition: 0, code, ..BatchAnswer::default() };
        self.cluster.answered(1, *number, vec![answer], self.now).unwrap();
    }

    fn later(&mut self, by: Duration) {
        self.now += by;
    }

    fn confirms(&mut self) -> Vec<(u128, &'static str)> {
        let word = |kind: &ConfirmKind| match kind {
            ConfirmKind::Taken => "taken",
            ConfirmKind::Refused(_) => "refused",
            ConfirmKind::NoTopic(_) => "no topic",
            ConfirmKind::Unavailable(_) => "unavailable",
            ConfirmKind::Behind => "behind",
        };
        let confirms = std::mem::take(&mut self.cluster.out.ready);
        confirms.iter().map(|Confirm { id, kind }| (id.as_u128(), word(kind))).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_is_due_is_done_at_once_so_the_next_time_is_never_past() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    world.cluster.leaves(world.now, 0);
    world.cluster.disconnected(1, world.now);
    for _ in 0..100 {
        world.later(SECOND / 10);
        world.cluster.asks(world.now);
        world.cluster.connects(world.now);
        assert!(world.cluster.wake_at(world.now) > world.now, "{:?}", world.cluster);
    }
}

#[test]
fn records_wait_for_a_broker_that_is_never_reached_and_that_is_known() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1)]).unwrap();
    let begun = world.now;
    for _ in 0..10 {
        world.later(SECOND);
        assert_eq!(world.cluster.connects(world.now).len(), 1);
        world.cluster.disconnected(1, world.now);
    }
    assert_eq!(world.cluster.silent_since(), Some(begun));
    world.later(SECOND);
    world.connect();
    world.answer("t", 0);
    assert_eq!((world.confirms(), world.cluster.silent_since()), (vec![(1, "taken")], None));
}

#[test]
fn a_topic_that_is_deleted_under_a_batch_has_its_records_confirmed() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    world.answer("t", 3);
    world.learn("t", 3, &[]).unwrap();
    world.publish(2, "t");
    world.later(SECOND);
    world.learn("t", 3, &[]).unwrap();
    assert_eq!(world.confirms(), [(1, "no topic"), (2, "behind")]);
}

#[test]
fn a_topic_that_is_made_again_with_fewer_partitions_begins_with_another_id() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1), Some(1)]).unwrap();
    world.later(2 * METADATA_AGE);
    assert!(matches!(world.learn("t", 0, &[Some(1)]), Err(KafkaError::LostIdentity(_))));
}

#[test]
fn names_that_do_not_exist_are_forgotten_however_many_there_are() {
    let mut world = World::new();
    for number in 0..1000 {
        let name = format!("gone-{number}");
        world.publish(number, &name);
        world.learn(&name, 3, &[]).unwrap();
        world.later(SECOND);
        world.learn(&name, 3, &[]).unwrap();
        world.cluster.publish(Vec::new(), 0, world.now);
    }
    assert_eq!(world.confirms().len(), 1000);
    // The caller knows the refusals.
    world.cluster.publish(Vec::new(), u64::MAX, world.now);
    world.later(2 * METADATA_AGE);
    world.cluster.is_asking = false;
    assert_eq!(world.cluster.asks(world.now), Some(Vec::new()));
    assert_eq!((world.cluster.topics.len(), world.cluster.by_name.len()), (0, 0));
}

#[test]
fn a_batch_of_unknown_fate_whose_topic_stays_away_ends_the_producer() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    assert_eq!(world.cluster.leaves(world.now, 0).len(), 1);
    world.cluster.disconnected(1, world.now);
    for _ in 0..5 {
        world.learn("t", 3, &[]).unwrap();
        world.later(SECOND);
    }
    assert_eq!(world.confirms(), []);
    let ended = world.learn("t", 3, &[]);
    assert!(matches!(ended, Err(KafkaError::LostIdentity(_))), "{ended:?}");
}

#[test]
fn a_topic_that_is_made_takes_the_next_record_and_none_behind_one_that_was_refused() {
    let mut world = World::new();
    world.publish(1, "t");
    for _ in 0..2 {
        world.learn("t", 3, &[]).unwrap();
        world.later(SECOND);
    }
    assert_eq!(world.confirms(), [(1, "no topic")]);
    world.publish(2, "t"); // the caller does not know yet
    world.cluster.publish(vec![Note { number: 3, topic: "t".to_owned(), key: Some("k") }], u64::MAX, world.now);
    assert_eq!(world.confirms(), [(2, "behind")]);
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    world.answer("t", 0);
    assert_eq!(world.confirms(), [(3, "taken")]);
}

#[test]
fn a_name_that_kafka_allows_no_topic_is_refused_without_a_question() {
    let mut world = World::new();
    let long = "x".repeat(250);
    for (number, name) in (0..).zip(["", ".", "..", "a b", "a/b", "\u{e4}", long.as_str()]) {
        world.publish(number, name);
        assert_eq!(world.cluster.asks(world.now).unwrap_or_default(), [""; 0], "{name}");
        world.cluster.is_asking = false;
    }
    assert_eq!(world.confirms().len(), 7);
}

#[test]
fn a_partition_without_a_leader_keeps_no_record_of_another_from_leaving() {
    let mut world = World::new();
    let place = crate::record::murmur2::partition(b"k", 2);
    let mut leaders = [None, None];
    leaders[1 - place] = Some(1);
    world.publish(1, "t");
    world.learn("t", 0, &leaders).unwrap();
    for _ in 0..2 {
        world.later(SECOND);
        world.learn("t", 0, &leaders).unwrap();
        // A record without a key goes where there is a leader.
        world.cluster.publish(vec![Note { number: 2, topic: "t".to_owned(), key: None }], 0, world.now);
    }
    assert_eq!(world.confirms(), [(1, "unavailable")]);
    world.connect();
    assert_eq!(world.cluster.leaves(world.now, 0).len(), 1);
}

#[test]
fn a_topic_that_grows_while_its_leader_changes_is_written_to_at_the_new_one() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[None]).unwrap();
    world.later(SECOND);
    world.learn("t", 0, &[Some(1), Some(1)]).unwrap();
    world.connect();
    world.answer("t", 0);
    world.publish(2, "t");
    assert_eq!(world.confirms(), [(1, "taken")]);
    assert_eq!(world.cluster.leaves(world.now, 0).len(), 1);
}

#[test]
fn a_record_that_comes_before_the_second_look_at_a_topic_overtakes_none_that_waits_for_it() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 3, &[]).unwrap();
    world.later(SECOND);
    world.publish(2, "t");
    assert_eq!(world.confirms(), []);
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    world.answer("t", 0);
    assert_eq!(world.confirms(), [(1, "taken"), (2, "taken")]);
}

#[test]
fn a_growing_topic_that_is_deleted_confirms_no_record_before_an_earlier_one_that_is_in_flight() {
    let (mut world, number) = World::with_record_in_flight();
    world.later(2 * METADATA_AGE);
    world.learn("t", 0, &[Some(1), Some(1)]).unwrap();
    world.publish(2, "t"); // it waits for the partitions
    for _ in 0..3 {
        world.later(2 * METADATA_AGE);
        world.learn("t", 3, &[]).unwrap();
    }
    assert_eq!(world.confirms(), []);
    let answer = BatchAnswer { topic: "t".to_owned(), ..BatchAnswer::default() };
    world.cluster.answered(1, number, vec![answer], world.now).unwrap();
    world.later(2 * METADATA_AGE);
    world.learn("t", 3, &[]).unwrap();
    assert_eq!(world.confirms(), [(1, "taken"), (2, "no topic")]);
}

#[test]
fn a_record_passes_none_that_waits_for_the_partitions_of_a_topic_that_comes_back() {
    let mut world = World::new();
    world.publish(1, "t");
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.connect();
    world.answer("t", 0);
    world.later(2 * METADATA_AGE);
    world.learn("t", 3, &[]).unwrap();
    world.publish(2, "t");
    world.later(SECOND);
    world.learn("t", 5, &[]).unwrap(); // it is there, and its leaders are not elected yet
    world.publish(3, "t");
    world.later(SECOND);
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.answer("t", 0);
    assert_eq!(world.confirms(), [(1, "taken"), (2, "taken"), (3, "taken")]);
}

#[test]
fn a_record_that_waits_for_new_partitions_stays_behind_one_that_the_caller_hands_over_anew() {
    let (mut world, number) = World::with_record_in_flight();
    world.later(2 * METADATA_AGE);
    world.learn("t", 0, &[Some(1), Some(1)]).unwrap();
    world.publish(2, "t");
    let answer = BatchAnswer { topic: "t".to_owned(), code: 17, ..BatchAnswer::default() };
    world.cluster.answered(1, number, vec![answer], world.now).unwrap();
    world.publish(3, "t"); // it goes to one of the new partitions
    assert_eq!(world.confirms(), [(1, "refused"), (2, "behind"), (3, "behind")]);
    world.cluster.publish(vec![Note { number: 1, topic: "t".to_owned(), key: Some("k") }], 1, world.now);
    world.answer("t", 0);
    assert_eq!(world.confirms(), [(1, "taken")]);
}

#[test]
fn a_topic_that_comes_back_has_no_record_behind_one_that_was_refused_while_it_was_away() {
    let (mut world, number) = World::with_record_in_flight();
    world.cluster.publish(vec![Note { number: 2, topic: "t".to_owned(), key: Some("l") }], 0, world.now);
    world.later(2 * METADATA_AGE);
    for _ in 0..2 {
        world.learn("t", 3, &[]).unwrap();
        world.publish(3, "t");
        world.later(SECOND);
    }
    let answer = BatchAnswer { topic: "t".to_owned(), code: 17, ..BatchAnswer::default() };
    world.cluster.answered(1, number, vec![answer], world.now).unwrap();
    world.learn("t", 0, &[Some(1)]).unwrap();
    world.answer("t", 0);
    assert_eq!(world.confirms(), [(1, "refused"), (3, "behind"), (3, "behind"), (2, "taken")]);
}
