use super::*;
use crate::{
    dispatch::Admission,
    interface::{Abilities, Destination, Limits, Now, Ordering, Outcome, Policy, Text},
    samples::{config, event},
};

const FULL: Text = Text::from_static("full");
const OTHER: Text = Text::from_static("other");

/// Pipelined events on their way to a broker, and the time.
struct Driver {
    dispatch: Dispatch,
    now: Now,
}

impl Driver {
    fn new() -> Self {
        let limits = Limits { max_events: 1000, max_bytes: 1 << 20 };
        let policy = Policy { ordering: Ordering::Pipelined, max_attempts: 100, ..config().policy };
        Self {
            dispatch: Dispatch::new(limits, policy, config().silent_after, Abilities::default(), 0),
            now: Now { instant: Instant::now(), unix_us: 0 },
        }
    }

    fn admit(&mut self, seq: i64, topic: Text, key: Option<&'static str>) {
        let destination = Destination { exchange: None, topic };
        let event = Event { destination, aggregate_id: key.map(Text::from_static), ..(*event(seq)).clone() };
        assert_eq!(self.dispatch.admit(Arc::new(event), None), Admission::Admitted);
    }

    fn publish(&mut self, max: usize) -> Vec<i64> {
        self.dispatch.next_batch(max, self.now).iter().map(|event| event.seq).collect()
    }

    fn answer(&mut self, seq: i64, outcome: Outcome) {
        self.dispatch.answered(&event(seq).id, outcome, self.now);
        self.dispatch.settled(&event(seq).id, false);
    }

    fn nack(&mut self, seq: i64) {
        self.answer(seq, Outcome::Unavailable("nack".to_owned()));
    }
}

/// The first event of a key is nacked while the broker takes others, so the hundred behind it are held. Then every
/// destination is unavailable.
fn a_key_held_while_every_destination_is_unavailable() -> Driver {
    let mut driver = Driver::new();
    driver.admit(1, FULL, Some("k"));
    driver.admit(2, FULL, None);
    for seq in 3..103 {
        driver.admit(seq, if seq % 2 == 0 { FULL } else { OTHER }, Some("k"));
    }
    driver.admit(1000, OTHER, None);
    assert_eq!(driver.publish(1), [1]);
    driver.nack(1);
    assert!(driver.dispatch.availability.since().is_some());
    assert_eq!(driver.publish(1), [1000]);
    driver.answer(1000, Outcome::Delivered);
    assert_eq!(driver.publish(2), [1, 2]);
    driver.nack(1);
    driver.nack(2);
    assert!(driver.dispatch.availability.since().is_some());
    driver
}

#[test]
fn what_a_key_holds_back_takes_no_round_from_what_may_leave() {
    let mut driver = a_key_held_while_every_destination_is_unavailable();
    driver.admit(2, FULL, None);
    assert!(driver.publish(10).is_empty(), "no round is due");
    driver.now.instant = driver.dispatch.availability.next_round().unwrap();
    assert_eq!(driver.publish(10), [2]);
}

#[test]
fn events_of_a_held_key_are_no_probes_of_their_destination() {
    let mut driver = a_key_held_while_every_destination_is_unavailable();
    driver.admit(1001, OTHER, None);
    assert_eq!(driver.publish(10), [1001], "nothing of its destination was nacked");
}

#[test]
fn what_is_held_while_it_waits_for_a_round_goes_back_to_the_table() {
    let mut driver = a_key_held_while_every_destination_is_unavailable();
    driver.publish(10);
    assert_eq!(driver.dispatch.len(), 0);
    assert_eq!(driver.dispatch.take_left_behind().len(), 100);
}
