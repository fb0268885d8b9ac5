use std::time::Duration;

use super::*;
use crate::{
    dispatch::Admission,
    interface::{Abilities, Destination, Limits, Now, Ordering, Outcome, Policy, Text},
    samples::{config, event},
};

const SILENT: Text = Text::from_static("silent");
const OTHER: Text = Text::from_static("other");
const SECOND: Duration = Duration::from_secs(1);

/// Events on their way to a broker that answers about some of them, and the time.
struct Driver {
    dispatch: Dispatch,
    now: Now,
    next: i64,
    split_off: SplitOff,
}

impl Driver {
    fn new(ordering: Ordering) -> Self {
        let limits = Limits { max_events: 100, max_bytes: 1 << 20 };
        let policy = Policy { ordering, ..config().policy };
        let now = Now { instant: Instant::now(), unix_us: 0 };
        Self {
            dispatch: Dispatch::new(limits, policy, 4 * SECOND, Abilities::default(), 0),
            now,
            next: 1,
            split_off: SplitOff::default(),
        }
    }

    fn admit(&mut self, topic: Text, key: Option<&'static str>) -> i64 {
        let seq = self.next;
        self.next += 1;
        let destination = Destination { exchange: None, topic };
        let event = Event { destination, aggregate_id: key.map(Text::from_static), ..(*event(seq)).clone() };
        assert_eq!(self.dispatch.admit(Arc::new(event), None), Admission::Admitted);
        seq
    }

    /// The events that leave on the main channel, and those on side channels.
    fn publish(&mut self) -> (Vec<i64>, Vec<i64>) {
        let batch = self.dispatch.next_batch(100, self.now);
        let split_off = self.dispatch.take_split_off();
        let numbers = |events: &[Arc<Event>]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
        let left = (numbers(&batch), numbers(&split_off.on_side_channels));
        self.split_off = split_off;
        left
    }

    fn answer(&mut self, seq: i64, outcome: Outcome) -> Verdict {
        self.dispatch.answered(&event(seq).id, outcome, self.now).unwrap().0
    }

    /// Takes this many looks, a second apart. `flows`: an event of another destination leaves before each, and is
    /// confirmed.
    fn look(&mut self, looks: usize, flows: bool) -> Option<Silence> {
        for _ in 0..looks {
            self.now.instant += SECOND;
            if flows {
                let other = self.admit(OTHER, None);
                self.publish();
                self.answer(other, Outcome::Delivered);
            }
            if let Some(silence) = self.dispatch.finds_silence(false, self.now.instant) {
                return Some(silence);
            }
        }
        None
    }

    /// Makes a destination silent while this many of its events are in flight.
    fn silent(&mut self, events: usize) -> Vec<i64> {
        let events: Vec<i64> = (0..events).map(|_| self.admit(SILENT, None)).collect();
        let other = self.admit(OTHER, None);
        self.publish();
        self.dispatch.finds_silence(false, self.now.instant);
        let found = self.look(4, false).unwrap();
        assert_eq!((found.event.seq, found.events, found.destinations), (events[0], events.len() + 1, 2));
        // The other event had no answer either, since the channel took nothing more.
        assert_eq!(self.publish(), (vec![], vec![events[0], other]));
        self.answer(other, Outcome::Delivered);
        events
    }
}

#[test]
fn one_event_of_a_silent_destination_leaves_on_a_side_channel_and_the_others_wait_in_the_table_at_no_attempt() {
    let mut driver = Driver::new(Ordering::Strict);
    let events = driver.silent(3);
    let put_off: Vec<_> = driver.split_off.verdicts.iter().map(|(verdict, _)| verdict.id).collect();
    assert_eq!(put_off, events[1..].iter().map(|seq| event(*seq).id).collect::<Vec<_>>());
    let counts = |verdict: &Verdict| verdict.status != Status::Pending || verdict.error.is_some();
    assert!(!driver.split_off.verdicts.iter().any(|(verdict, _)| counts(verdict)), "{:?}", driver.split_off.verdicts);
    let others = [driver.admit(OTHER, None), driver.admit(OTHER, None)];
    driver.admit(SILENT, None);
    assert_eq!(driver.publish(), (others.to_vec(), vec![]));
    assert_eq!(driver.split_off.verdicts.len(), 1);
    for other in others {
        driver.answer(other, Outcome::Delivered);
    }
    assert!(driver.look(100, true).is_none(), "a trial is no reason to connect anew");
}

#[test]
fn an_answer_ends_the_silence_and_a_late_nack_neither_ends_it_nor_counts() {
    let mut driver = Driver::new(Ordering::Strict);
    let events = driver.silent(1);
    driver.now.instant += 65 * SECOND;
    let verdict = driver.answer(events[0], Outcome::Unavailable("nack".to_owned()));
    assert_eq!((verdict.status, verdict.error, verdict.retry_in), (Status::Pending, None, Some(SECOND)));
    let next = [driver.admit(SILENT, None), driver.admit(SILENT, None)];
    assert_eq!(driver.publish(), (vec![], vec![next[0]]));
    driver.answer(next[0], Outcome::Delivered);
    let last = [driver.admit(SILENT, None), driver.admit(SILENT, None)];
    assert_eq!(driver.publish(), (last.to_vec(), vec![]));
}

#[test]
fn nothing_is_done_about_silence_while_nobody_waits() {
    let mut driver = Driver::new(Ordering::Strict);
    driver.admit(SILENT, None);
    driver.publish();
    assert!(driver.look(20, true).is_none(), "others flow");
    driver.admit(OTHER, None);
    driver.publish();
    assert!(driver.look(2, false).is_none());
    assert!(driver.look(1, false).is_some(), "its answer is overdue, too");
}

#[test]
fn a_destination_that_catches_up_slowly_is_not_silent_until_it_stops() {
    let mut driver = Driver::new(Ordering::Strict);
    let slow: Vec<i64> = (0..48).map(|_| driver.admit(SILENT, None)).collect();
    driver.admit(OTHER, None);
    driver.publish();
    let (answered, left) = slow.split_at(42);
    for answered in answered.chunks(6) {
        assert!(driver.look(1, false).is_none(), "before the answers to {answered:?}");
        for seq in answered {
            driver.answer(*seq, Outcome::Delivered);
        }
    }
    let found = driver.look(3, false).unwrap();
    assert_eq!((found.event.seq, found.events), (left[0], left.len() + 1), "the other has no answer, too");
}

#[test]
fn a_destination_that_answers_less_than_half_of_what_it_has_is_silent_if_others_wait() {
    let mut driver = Driver::new(Ordering::Strict);
    let slow: Vec<i64> = (0..48).map(|_| driver.admit(SILENT, None)).collect();
    driver.admit(OTHER, None);
    driver.publish();
    let took = slow.chunks(3).position(|answered| {
        let found = driver.look(1, false);
        answered.iter().filter(|_| found.is_none()).for_each(|seq| drop(driver.answer(*seq, Outcome::Delivered)));
        found.is_some()
    });
    assert!(took.is_some_and(|took| (5..=8).contains(&took)), "{took:?}");
}

#[test]
fn a_message_without_an_answer_for_half_a_minute_while_others_are_confirmed_is_found_although_nobody_waits() {
    let mut driver = Driver::new(Ordering::Strict);
    let silent = driver.admit(SILENT, None);
    driver.publish();
    let took = (1..40).find(|_| driver.look(1, true).is_some());
    assert!(took.is_some_and(|took| (32..=33).contains(&took)), "{took:?}");
    assert_eq!(driver.publish(), (vec![], vec![silent]));
}

#[test]
fn an_event_that_cannot_leave_since_too_many_have_no_answer_waits() {
    let mut driver = Driver::new(Ordering::Strict);
    driver.admit(SILENT, None);
    driver.publish();
    assert!(driver.look(10, false).is_none());
    driver.admit(OTHER, None);
    driver.now.instant += SECOND;
    assert!(driver.dispatch.finds_silence(true, driver.now.instant).is_some());
}

#[test]
fn what_only_stands_behind_a_silent_destination_is_not_silent() {
    let mut driver = Driver::new(Ordering::Strict);
    let silent = driver.admit(SILENT, None);
    let before = driver.admit(OTHER, None);
    driver.publish();
    driver.answer(before, Outcome::Delivered);
    let behind = driver.admit(OTHER, None);
    driver.publish();
    let found = driver.look(9, false).unwrap();
    assert_eq!((found.event.seq, found.events, found.destinations), (silent, 1, 1));
    assert_eq!(driver.publish(), (vec![behind], vec![silent]));
}

#[test]
fn no_more_leave_on_side_channels_than_the_broker_grants() {
    let mut driver = Driver::new(Ordering::Strict);
    driver.dispatch.silences.connected(1);
    let events = [driver.admit(SILENT, None), driver.admit(OTHER, None)];
    driver.publish();
    assert_eq!(driver.look(9, false).unwrap().destinations, 2);
    assert_eq!(driver.publish(), (vec![], vec![events[0]]));
    assert_eq!(driver.split_off.verdicts.len(), 1);
}

#[test]
fn what_a_silent_destination_has_had_for_a_while_is_no_suspect_when_connections_end() {
    use crate::dispatch::Loss;
    let mut driver = Driver::new(Ordering::None);
    let silent = driver.silent(1)[0];
    for _ in 0..4 {
        driver.now.instant += 4 * SECOND;
        driver.dispatch.lost(Loss::MaybeMessage("reset"), driver.now.instant);
        let good = driver.admit(OTHER, None);
        assert_eq!(driver.publish(), (vec![good], vec![silent]));
        driver.answer(good, Outcome::Delivered);
    }
}

#[test]
fn while_memory_is_crowded_others_may_wait_in_the_table() {
    let mut driver = Driver::new(Ordering::Strict);
    for _ in 0..60 {
        driver.admit(SILENT, None);
    }
    driver.publish();
    assert!(driver.look(6, false).is_some());
}

#[test]
fn a_key_waits_for_its_event_that_is_put_off() {
    for ordering in [Ordering::Strict, Ordering::Pipelined] {
        let mut driver = Driver::new(ordering);
        driver.silent(1);
        let first = driver.admit(SILENT, Some("k"));
        driver.admit(OTHER, Some("k"));
        assert_eq!(driver.publish(), (vec![], vec![]));
        let [(put_off, _)] = driver.split_off.verdicts.as_slice() else { panic!("{:?}", driver.split_off) };
        assert_eq!((put_off.id, put_off.holds_key), (event(first).id, true));
    }
}

#[test]
fn a_broker_that_is_slow_gets_more_time_each_time_and_after_five_calm_minutes_as_little_as_before() {
    let mut driver = Driver::new(Ordering::None);
    let mut looks = Vec::new();
    for _ in 0..5 {
        // It is another destination each time, so that it leaves on the main channel.
        let name = ["a", "b", "c", "d", "e"][looks.len()];
        driver.admit(Text::from_static(name), None);
        let other = driver.admit(OTHER, None);
        driver.publish();
        driver.dispatch.finds_silence(false, driver.now.instant);
        let took = (1..100).find(|_| driver.look(1, false).is_some()).unwrap();
        looks.push(took);
        driver.publish();
        if driver.dispatch.answered(&event(other).id, Outcome::Delivered, driver.now).is_some() {
            driver.dispatch.settled(&event(other).id, false);
        }
    }
    assert_eq!(looks, [4, 8, 16, 16, 16]);
    driver.now.instant += 301 * SECOND;
    driver.admit(Text::from_static("f"), None);
    driver.admit(OTHER, None);
    driver.publish();
    driver.dispatch.finds_silence(false, driver.now.instant);
    assert!(driver.look(4, false).is_some());
}

#[test]
fn five_calm_minutes_count_although_messages_were_always_in_flight() {
    let mut driver = Driver::new(Ordering::None);
    driver.silent(1);
    let slow = driver.admit(Text::from_static("slow"), None);
    driver.publish();
    assert!(driver.look(301, false).is_none(), "nobody waits");
    driver.answer(slow, Outcome::Delivered);
    driver.admit(Text::from_static("a"), None);
    driver.admit(OTHER, None);
    driver.publish();
    assert!(driver.look(5, false).is_some());
}

#[test]
fn a_suspect_leaves_alone_even_on_a_side_channel_and_is_a_suspect_no_more_after_a_while_without_an_answer() {
    use crate::dispatch::Loss;
    let mut driver = Driver::new(Ordering::None);
    let silent = driver.silent(1)[0];
    let other = driver.admit(OTHER, None);
    assert_eq!(driver.publish(), (vec![other], vec![]));
    driver.dispatch.lost(Loss::MaybeMessage("reset"), driver.now.instant);
    assert_eq!(driver.publish(), (vec![other], vec![silent]));
    driver.dispatch.lost(Loss::MaybeMessage("reset"), driver.now.instant);
    let good = driver.admit(OTHER, None);
    assert_eq!(driver.publish(), (vec![], vec![silent]), "alone");
    assert_eq!(driver.publish(), (vec![], vec![]));
    driver.now.instant += 4 * SECOND;
    assert_eq!(driver.publish(), (vec![other], vec![]), "alone, but for what has had its time");
    assert_eq!(driver.publish(), (vec![], vec![]));
    driver.answer(other, Outcome::Delivered);
    assert_eq!(driver.publish(), (vec![good], vec![]));
}
