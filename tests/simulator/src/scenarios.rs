//! Promises that the end of a run does not show: when a relay reads, in which order, and who waits meanwhile. Each has
//! a world of its own, in which the test says what happens.

use std::time::Duration;

use outbox_core::{Abilities, Config, samples};

use crate::{
    agenda::What,
    broker::Queue,
    database::{Emitted, Micros},
    knobs::Knobs,
    relay::Session,
    world::{World, micros},
};

/// A world in which a relay is about to start.
fn world(config: Config) -> World {
    let mut world = World::empty(Knobs::calm(config, Abilities::default()), 1000, true);
    world.later(0, What::Start(0));
    world
}

/// Emits events. Returns the number of the last one.
fn emit(world: &mut World, events: usize, key: Option<u64>, until: Option<Micros>) -> i64 {
    let xid = world.db.begin();
    for _ in 0..events {
        let emitted = Emitted { key, is_deferred: until.is_some(), is_published: true, ..Emitted::default() };
        world.insert(xid, emitted, until);
    }
    world.commit(xid, false, false, 0);
    world.checker.facts.keys().next_back().copied().unwrap_or_default()
}

/// Lets time pass, in which no promise may break.
fn pass(world: &mut World, time: Duration) {
    let until = world.now + micros(time);
    world.at(until, What::Flush); // so that something happens then
    while world.now < until {
        assert!(world.step());
    }
    assert_eq!(world.checker.violation, None);
}

fn session(world: &World) -> &Session {
    world.relays[0].session.as_ref().expect("the relay runs")
}

/// What the relay has asked the table since the story had so many lines.
fn requests(world: &World, since: usize) -> Vec<&str> {
    let lines = world.story.iter().flatten().skip(since);
    lines.filter_map(|line| Some(line.split_once("asks the table: ")?.1)).collect()
}

fn lines(world: &World) -> usize {
    world.story.as_ref().map_or(0, Vec::len)
}

#[test]
fn what_is_deferred_while_a_backlog_is_worked_off_is_looked_for_before_the_end_of_the_backlog() {
    let mut world = world(Config { max_rate: 100.try_into().ok(), ..samples::config() });
    let last = emit(&mut world, 2000, None, None);
    pass(&mut world, Duration::from_secs(3));
    let due = world.now + 1_000_000;
    let deferred = emit(&mut world, 1, None, Some(due));
    let begun = lines(&world);
    pass(&mut world, Duration::from_secs(4));
    assert!(world.broker.has_accepted(deferred) && !world.broker.has_accepted(last));
    let looks = requests(&world, begun).iter().filter(|request| **request == "due").count();
    assert!((3..=6).contains(&looks), "{looks} looks in 4 s");
}

#[test]
fn verdicts_that_cannot_be_written_do_not_keep_the_rest_of_a_backlog_waiting() {
    let mut world = world(samples::config());
    let last = emit(&mut world, 20, None, None);
    while world.db.rows.is_empty() {
        assert!(world.step());
    }
    // One place in memory is left.
    world
        .db
        .rows
        .range_mut(..samples::config().limits.max_events as i64)
        .for_each(|(_, row)| row.locked_until = Micros::MAX);
    pass(&mut world, Duration::from_secs(5));
    assert!(world.broker.has_accepted(last));
}

#[test]
fn a_check_looks_after_the_sequence_then_the_publication_and_a_refusal_of_the_first_stops_nothing() {
    let mut world = world(Config { check_interval: Duration::from_secs(60), ..samples::config() });
    world.db.repairs_refused_until = Micros::MAX;
    pass(&mut world, Duration::from_secs(50));
    let begun = lines(&world);
    pass(&mut world, Duration::from_secs(20));
    let asked = requests(&world, begun).join(", ");
    assert_eq!(asked, "fix the sequence, fix the publication, pending after 0 (8 rows), due");
}

#[test]
fn a_broker_that_has_just_nacked_a_message_does_not_yet_count_as_unavailable() {
    let mut world = world(samples::config());
    world.broker.queues[0] = Queue::Full;
    let event = emit(&mut world, 1, None, None);
    let unavailable_since = |world: &World| session(world).core.figures(world.clocks().instant).unavailable_since;
    while world.broker.seen.get(&event).is_none_or(|seen| seen.nacked == 0) {
        assert!(world.step());
    }
    pass(&mut world, Duration::from_millis(10)); // the nack reaches the relay
    assert_eq!(unavailable_since(&world), None);
    pass(&mut world, samples::config().park_after * 2);
    assert!(unavailable_since(&world).is_some());
}

#[test]
fn without_a_stream_the_table_is_read_every_second_and_an_open_transaction_holds_up_nobody() {
    let mut world = world(samples::config());
    let open = world.db.begin(); // the slot cannot be created before its end
    pass(&mut world, Duration::from_secs(1));
    let begun = lines(&world);
    let event = emit(&mut world, 1, Some(1), None);
    pass(&mut world, Duration::from_millis(1500));
    assert!(world.broker.has_accepted(event));
    let due = world.now + 1_000_000;
    let deferred = emit(&mut world, 1, Some(2), Some(due));
    pass(&mut world, Duration::from_millis(3500));
    assert!(world.broker.has_accepted(deferred));
    pass(&mut world, Duration::from_secs(5));
    let passes = requests(&world, begun).iter().filter(|request| request.starts_with("pending after 0 ")).count();
    assert!((9..=25).contains(&passes), "{passes} passes in 10 s");
    assert!(!session(&world).core.is_live());
    world.db.open.remove(&open);
    pass(&mut world, Duration::from_secs(2));
    assert!(session(&world).core.is_live());
}

#[test]
fn a_parked_relay_waits_for_a_transaction_that_was_open_when_the_publication_had_changed() {
    let mut world = world(Config { max_rate: 100.try_into().ok(), ..samples::config() });
    let last = emit(&mut world, 200, None, None);
    pass(&mut world, Duration::from_secs(1));
    world.db.publish(false);
    let open = world.db.begin();
    world.insert(open, Emitted::default(), None);
    world.db.publish(true);
    emit(&mut world, 1, None, None); // with it the server describes the table
    pass(&mut world, Duration::from_secs(5));
    assert!(world.broker.has_accepted(last) && !session(&world).core.is_live());
    world.commit(open, false, false, 0);
    pass(&mut world, Duration::from_secs(2));
    assert!(session(&world).core.is_live());
}
