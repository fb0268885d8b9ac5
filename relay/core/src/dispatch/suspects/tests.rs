use std::time::Instant;

use super::*;
use crate::{
    interface::{Abilities, Limits, Now, Ordering, Outcome, Policy, Text},
    samples::{config, event},
};

/// Time from leaving to the end of the connection.
const MOMENT: Duration = Duration::from_millis(50);
const ENDED: Loss<'_> = Loss::MaybeMessage("541 INTERNAL_ERROR");

struct Driver {
    dispatch: Dispatch,
    now: Now,
}

impl Driver {
    /// Starts with events 1 to `count`, all ready.
    fn new(count: i64) -> Self {
        let limits = Limits { max_events: 1000, max_bytes: 1 << 20 };
        let policy = Policy { ordering: Ordering::Pipelined, max_attempts: 1, ..config().policy };
        let now = Now { instant: Instant::now(), unix_us: 0 };
        let mut driver =
            Self { dispatch: Dispatch::new(limits, policy, config().silent_after, Abilities::default(), 0), now };
        for seq in 1..=count {
            driver.admit(seq, false);
        }
        driver
    }

    fn admit(&mut self, seq: i64, holds_key: bool) {
        let key = Some(Text::from_static(if seq % 2 == 0 { "even" } else { "odd" }));
        let event = Event { aggregate_id: key, holds_key, ..(*event(seq)).clone() };
        self.dispatch.admit(Arc::new(event), None);
    }

    fn admit_without_key(&mut self, seq: i64) {
        self.dispatch.admit(event(seq), None);
    }

    fn publish(&mut self) -> Vec<i64> {
        self.dispatch.next_batch(100, self.now).iter().map(|event| event.seq).collect()
    }

    fn confirm(&mut self, seq: i64) {
        self.dispatch.answered(&event(seq).id, Outcome::Delivered, self.now).unwrap();
        self.dispatch.settled(&event(seq).id, false);
    }

    /// Loses the connection. Returns the verdict of the event that was alone in flight, as written.
    fn lose(&mut self, loss: Loss<'_>) -> Option<Verdict> {
        let alone = self.dispatch.lost(loss, self.now.instant)?;
        self.dispatch.settled(&alone.event.id, false);
        self.dispatch.take_left_behind();
        Some(alone.verdict)
    }

    /// Lets all ready events leave. All are confirmed but `ender`, over which the connection ends, until it leaves
    /// alone.
    fn end_over(&mut self, ender: i64) -> Verdict {
        for _ in 0..100 {
            let batch = self.publish();
            if batch.contains(&ender) {
                if let Some(verdict) = self.lose(ENDED) {
                    return verdict;
                }
                self.dispatch.connected(true, self.now.instant);
            } else {
                batch.into_iter().for_each(|seq| self.confirm(seq));
            }
        }
        panic!("{ender} does not leave alone: {:?}", self.dispatch);
    }

    /// The event is due again, and leaves alone.
    fn again(&mut self, seq: i64) {
        self.admit(seq, true);
        assert_eq!(self.publish(), [seq]);
    }
}

fn seqs(range: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    range.collect()
}

#[test]
fn what_was_in_flight_when_two_connections_ended_leaves_one_at_a_time_in_order_and_later_events_behind_it() {
    let mut driver = Driver::new(6);
    assert_eq!(driver.publish(), seqs(1..=6));
    assert!(driver.lose(ENDED).is_none());
    assert_eq!(driver.publish(), seqs(1..=6), "once is no suspicion");
    driver.confirm(1);
    assert!(driver.lose(ENDED).is_none());
    driver.admit(7, false);
    for seq in 2..=6 {
        assert_eq!(driver.publish(), [seq]);
        assert!(driver.publish().is_empty(), "nothing beside it");
        driver.confirm(seq);
    }
    driver.admit(8, false);
    assert_eq!(driver.publish(), [7, 8]);
}

#[test]
fn the_event_over_which_connections_end_fails_with_the_reason_after_a_few_and_holds_its_key_until_then() {
    let mut driver = Driver::new(6);
    let mut verdicts = vec![driver.end_over(4)];
    assert_eq!(driver.publish(), [5], "6 waits behind 4, which holds its key");
    driver.confirm(5);
    while verdicts.last().is_some_and(|verdict| verdict.status == Status::Pending) {
        driver.dispatch.connected(true, driver.now.instant);
        driver.again(4);
        verdicts.push(driver.lose(ENDED).unwrap());
    }
    assert_eq!(verdicts.len(), 4);
    let failed = verdicts.pop().unwrap();
    assert!(failed.error.unwrap().contains("541 INTERNAL_ERROR"));
    let pauses: Vec<_> = verdicts.iter().map(|verdict| verdict.retry_in.unwrap()).collect();
    assert_eq!(pauses, [1, 2, 4].map(|factor| factor * FIRST_PAUSE));
    assert!(verdicts.iter().all(|verdict| verdict.error.is_none() && verdict.holds_key), "no attempt counts");
}

#[test]
fn one_event_alone_in_the_world_fails_after_more_endings_if_the_broker_takes_what_the_sink_makes_and_else_never() {
    for (is_proven, endings) in [(true, 7), (false, 50)] {
        let mut driver = Driver::new(1);
        let mut verdict = driver.end_over(1);
        for times in 2..=endings {
            assert_eq!(verdict.status, Status::Pending, "after {times} endings");
            driver.dispatch.connected(is_proven, driver.now.instant);
            driver.again(1);
            verdict = driver.lose(ENDED).unwrap();
        }
        assert_eq!(verdict.status == Status::Failed, is_proven);
    }
}

#[test]
fn a_broker_that_takes_no_event_at_all_fails_none() {
    let mut driver = Driver::new(4);
    for _ in 0..2 {
        assert_eq!(driver.publish(), seqs(1..=4));
        driver.lose(ENDED);
    }
    for seq in [1, 2].into_iter().cycle().take(50) {
        driver.dispatch.connected(true, driver.now.instant);
        assert_eq!(driver.publish(), [seq]);
        assert_eq!(driver.lose(ENDED).unwrap().status, Status::Pending);
        driver.admit(seq, true);
    }
}

#[test]
fn a_line_that_also_breaks_when_the_event_is_not_on_its_way_fails_it_only_if_that_goes_on_for_long() {
    let mut driver = Driver::new(4);
    driver.end_over(4);
    let mut endings = 1;
    for other in (21..).step_by(2) {
        driver.dispatch.connected(true, driver.now.instant);
        for _ in 0..10 {
            driver.now.instant += REST / 10;
            driver.lose(Loss::Outage);
            driver.dispatch.connected(true, driver.now.instant);
        }
        driver.admit(other, false);
        assert_eq!(driver.publish(), [other]);
        driver.confirm(other);
        driver.again(4);
        driver.now.instant += MOMENT;
        endings += 1;
        if driver.lose(ENDED).unwrap().status == Status::Failed {
            break;
        }
    }
    assert!(endings > 10, "{endings} endings, each of which the line would have brought every second time");
}

#[test]
fn between_two_endings_over_single_events_others_have_a_second() {
    let mut driver = Driver::new(4);
    driver.end_over(3);
    driver.end_over(4);
    driver.dispatch.connected(true, driver.now.instant);
    for seq in [3, 4] {
        driver.admit(seq, true);
    }
    for other in [11, 12, 13] {
        driver.admit_without_key(other);
        assert_eq!(driver.publish(), [other]);
        driver.confirm(other);
        driver.now.instant += REST / 4;
    }
    assert!(driver.publish().is_empty());
    assert_eq!(driver.dispatch.ready(), 2, "they leave as soon as they may");
    driver.now.instant += REST / 4;
    assert_eq!(driver.publish(), [3]);
    assert!(driver.publish().is_empty(), "alone");
    driver.lose(ENDED);
    driver.dispatch.connected(true, driver.now.instant);
    assert_eq!(driver.publish(), [4], "nobody else waits");
}

#[test]
fn a_suspect_that_gets_no_answer_keeps_nobody_waiting_and_never_fails() {
    let mut driver = Driver::new(4);
    driver.end_over(4);
    for other in 10..60 {
        driver.dispatch.connected(true, driver.now.instant);
        driver.again(4);
        assert_eq!(driver.lose(Loss::Outage).unwrap().status, Status::Pending);
        driver.admit(other * 2 + 1, false);
        assert_eq!(driver.publish(), [other * 2 + 1]);
        driver.confirm(other * 2 + 1);
    }
    driver.again(4);
    driver.confirm(4);
}

#[test]
fn suspects_that_get_no_answer_keep_others_waiting_for_a_quarter_of_a_second_each() {
    let mut driver = Driver::new(0);
    (1..=3).for_each(|seq| driver.admit_without_key(seq));
    for _ in 0..2 {
        assert_eq!(driver.publish(), seqs(1..=3));
        driver.lose(ENDED);
    }
    driver.admit_without_key(4);
    for seq in 1..=4 {
        assert_eq!(driver.publish(), [seq]);
        driver.now.instant += FIRST_PATIENCE - Duration::from_millis(1);
        assert!(driver.publish().is_empty());
        driver.now.instant += Duration::from_millis(1);
    }
    driver.confirm(4);
    // They are suspects again when the next connection ends, and others wait longer for them.
    driver.lose(ENDED);
    driver.admit_without_key(5);
    assert_eq!(driver.publish(), [1]);
    driver.now.instant += FIRST_PATIENCE;
    assert!(driver.publish().is_empty());
    driver.now.instant += 3 * FIRST_PATIENCE;
    assert_eq!(driver.publish(), [2]);
}

#[test]
fn an_event_that_ends_connections_only_a_while_after_it_has_left_fails_all_the_same() {
    for after in [100, 600, 3000].map(Duration::from_millis) {
        let mut driver = Driver::new(0);
        driver.admit_without_key(1);
        let (mut left_at, mut endings) = (None, 0);
        let failed = (2..20_000).any(|seq| {
            driver.now.instant += MOMENT;
            let now = driver.now.instant;
            driver.admit_without_key(seq);
            for seq in driver.publish() {
                if seq == 1 { left_at = Some(now) } else { driver.confirm(seq) }
            }
            if left_at.take_if(|left_at| now >= *left_at + after).is_none() {
                return false;
            }
            endings += 1;
            let verdict = driver.lose(ENDED);
            driver.dispatch.connected(true, now);
            if verdict.as_ref().is_some_and(|verdict| verdict.status == Status::Pending) {
                driver.admit_without_key(1);
            }
            verdict.is_some_and(|verdict| verdict.status == Status::Failed)
        });
        assert!(failed && endings <= 20, "{after:?}: {endings} endings");
    }
}

#[test]
fn a_suspect_for_which_others_wait_no_longer_holds_its_key_and_no_later_event_of_it_leaves_before_its_answer() {
    let mut driver = Driver::new(3);
    for _ in 0..2 {
        assert_eq!(driver.publish(), seqs(1..=3));
        driver.lose(ENDED);
    }
    assert_eq!(driver.publish(), [1]);
    driver.now.instant += FIRST_PATIENCE;
    assert_eq!(driver.publish(), [2]);
    driver.confirm(2);
    driver.admit(4, false);
    assert_eq!(driver.publish(), [4], "3 waits in the table");
    assert_eq!(driver.dispatch.take_left_behind().len(), 1);
    // It leaves again first, as every event in flight does, and the others after the patience with it.
    driver.lose(ENDED);
    assert_eq!(driver.publish(), [1]);
    driver.confirm(1);
    driver.dispatch.begin_pass();
    driver.dispatch.keys.unspill(&[]);
    driver.admit(3, false);
    assert_eq!(driver.publish(), [4, 3]);
}

#[test]
fn an_event_that_ends_connections_behind_a_silent_one_of_its_key_keeps_no_other_waiting() {
    let mut driver = Driver::new(3);
    for _ in 0..2 {
        assert_eq!(driver.publish(), seqs(1..=3));
        driver.lose(ENDED);
    }
    let mut others = 0;
    for seq in (4..400).step_by(2) {
        driver.admit(seq, false);
        driver.now.instant += MOMENT;
        for seq in driver.publish() {
            assert_ne!(seq, 3, "it would end the connection");
            if seq != 1 {
                driver.confirm(seq);
                others += 1;
            }
        }
    }
    assert!(others > 150, "{others} of 198");
}
