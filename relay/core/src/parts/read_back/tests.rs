//! Which events are kept in the table, and from when on a session reads.

use std::sync::Arc;

use super::*;
use crate::{interface::Abilities, samples};

const SECOND: i64 = 1_000_000;

/// A session that may read back, and its clocks.
struct Session {
    read_back: ReadBack,
    began: Instant,
}

impl Session {
    fn new(start: Start) -> Self {
        let abilities = Abilities { reads_back: true, ..Abilities::default() };
        let began = Instant::now();
        let read_back = ReadBack::new(&Start { abilities, ..start }, Duration::from_secs(30), began);
        Self { read_back, began }
    }

    /// A session whose predecessors have written their last verdict a thousand seconds after 1970.
    fn after(in_doubt: Vec<InDoubt>) -> Self {
        Self::new(Start { last_settled_us: Some(1000 * SECOND), in_doubt, ..Start::default() })
    }

    fn at(&self, second: i64) -> Now {
        let since = Duration::from_secs(second.unsigned_abs());
        Now { instant: self.began + since, unix_us: second * SECOND }
    }

    fn hand_over(&mut self, seqs: &[i64], second: i64) {
        let events: Vec<_> = seqs.iter().map(|seq| samples::event(*seq)).collect();
        let now = self.at(second);
        self.read_back.handed_over(events.iter().map(Arc::as_ref), now);
    }

    fn answer(&mut self, seq: u128, outcome: &Outcome, second: i64) {
        let now = self.at(second).instant;
        self.read_back.answered(&id(seq), outcome, now);
    }

    /// What is to be kept now, by event.
    fn old(&mut self, second: i64) -> Vec<InDoubt> {
        let now = self.at(second).instant;
        let mut old = self.read_back.doubts(10, now).map_or_else(Vec::new, |doubts| doubts.events);
        old.sort_by_key(|kept| kept.id);
        old
    }

    fn kept(&mut self, events: Vec<InDoubt>, floor_us: Option<i64>, second: i64) {
        let now = self.at(second).instant;
        self.read_back.kept(&Doubts { events, floor_us }, now);
    }
}

fn id(seq: u128) -> Uuid {
    Uuid::from_u128(seq)
}

fn verdict(seq: u128, status: Status) -> Verdict {
    Verdict { id: id(seq), status, error: None, retry_in: None, holds_key: false }
}

fn in_doubt(seq: u128, since_s: i64, is_delivered: bool) -> InDoubt {
    InDoubt { id: id(seq), replays: 0, since_us: since_s * SECOND, is_delivered }
}

fn unread() -> Outcome {
    Outcome::Unread { is_behind: false, reason: "no leader".to_owned() }
}

#[test]
fn a_session_reads_from_before_the_last_verdict_and_all_if_there_is_none() {
    let begins = |start| Session::new(start).read_back.take();
    assert_eq!(
        begins(Start { last_settled_us: Some(100 * SECOND), ..Start::default() }),
        Some((Some(68 * SECOND), Older::default()))
    );
    assert_eq!(begins(Start::default()), Some((None, Older::default())));
    let cannot = ReadBack::new(&Start::default(), Duration::ZERO, Instant::now()).take();
    assert_eq!(cannot, None, "the sink cannot");
}

#[test]
fn once_the_broker_has_forgotten_the_sink_it_reads_from_the_oldest_event_without_an_answer() {
    let mut session = Session::after(Vec::new());
    session.read_back.take();
    session.read_back.lost_identity();
    assert_eq!(session.read_back.take(), None, "nothing is unknown");
    session.hand_over(&[1, 2], 10);
    session.hand_over(&[2, 3], 20);
    session.answer(1, &Outcome::Delivered, 20);
    session.read_back.lost_identity();
    assert_eq!(session.read_back.take(), Some((Some(8 * SECOND), Older::default())));
    session.hand_over(&[3], 30);
    session.read_back.lost_identity();
    let since = session.read_back.take().unwrap().0;
    assert_eq!(since, Some(28 * SECOND), "the sink knows what it read before");
}

#[test]
fn an_event_whose_verdict_is_missing_for_long_is_kept_once_and_again_when_it_is_delivered() {
    let mut session = Session::after(Vec::new());
    session.hand_over(&[1], 0);
    session.hand_over(&[2], 5);
    assert_eq!(session.old(7), [], "eight seconds have not passed");
    let old = session.old(15);
    assert_eq!(old, [in_doubt(1, 0, false), in_doubt(2, 5, false)]);
    assert_eq!(session.old(16), [], "the statement may have failed, and is tried at the next look");
    assert_eq!(session.old(23).len(), 2);
    session.kept(old, None, 23);
    assert_eq!(session.old(23), []);
    session.answer(1, &Outcome::Delivered, 24);
    session.answer(2, &Outcome::Retry("nack".to_owned()), 24);
    assert_eq!(session.old(60), [in_doubt(1, 0, true)], "the broker does not have the other");
    session.read_back.settled(&verdict(1, Status::Sent), false);
    let now = session.at(90).instant;
    let forget = Some(Doubts { events: Vec::new(), floor_us: Some(1000 * SECOND) });
    assert_eq!(session.read_back.doubts(10, now), forget, "the table forgets what is settled");
    session.kept(Vec::new(), Some(1000 * SECOND), 90);
    assert_eq!(session.read_back.doubts(10, now), None);
}

#[test]
fn an_event_that_was_emitted_since_the_session_began_counts_from_its_own_time() {
    let mut session = Session::after(Vec::new());
    session.hand_over(&[1], 1001);
    let new = Event { created_at_us: 1010 * SECOND, ..(*samples::event(2)).clone() };
    let now = session.at(1011);
    session.read_back.handed_over([&new].into_iter(), now);
    assert_eq!(session.old(1020), [in_doubt(1, 968, false), in_doubt(2, 1011, false)]);
}

#[test]
fn an_event_that_the_sink_cannot_read_back_is_kept_at_once_from_the_beginning_of_the_sessions_first_read() {
    let mut session = Session::after(Vec::new());
    session.hand_over(&[1], 1001);
    session.answer(1, &unread(), 1002);
    session.read_back.settled(&verdict(1, Status::Pending), false);
    assert_eq!(session.old(1002), [in_doubt(1, 968, false)]);
}

#[test]
fn what_an_earlier_session_has_kept_is_found_or_read_back_from_its_own_time() {
    let mut session = Session::after(vec![in_doubt(1, 100, false), in_doubt(2, 100, true)]);
    let older = Older { since_us: None, in_doubt: vec![(id(1), 98 * SECOND)] };
    assert_eq!(session.read_back.take(), Some((Some(968 * SECOND), older)));
    let mut events: Vec<_> = [1, 2, 3].map(samples::event).into();
    assert_eq!(session.read_back.take_delivered(&mut events), [id(2)]);
    session.read_back.put_off(&samples::event(2), session.at(1001));
    session.hand_over(&[1, 3], 1001);
    assert_eq!(session.old(1002), [], "it is kept already");
    session.answer(1, &Outcome::Found, 1002);
    assert_eq!(session.old(1002), [in_doubt(1, 100, true)]);
}

#[test]
fn no_verdict_is_written_before_the_table_keeps_the_floor_unless_the_server_refuses_it() {
    let start = || Start { last_settled_us: Some(1000 * SECOND), floor_us: Some(700 * SECOND), ..Start::default() };
    let mut session = Session::new(start());
    let older = Older { since_us: Some(668 * SECOND), in_doubt: Vec::new() };
    assert_eq!(session.read_back.take(), Some((Some(968 * SECOND), older)));
    assert!(!session.read_back.holds_verdicts(), "there are none");
    session.hand_over(&[1], 1001);
    assert!(session.read_back.holds_verdicts());
    let now = session.at(1001).instant;
    let doubts = session.read_back.doubts(10, now);
    assert_eq!(doubts, Some(Doubts { events: Vec::new(), floor_us: Some(700 * SECOND) }));
    assert!(!session.read_back.not_kept(true, now) && session.read_back.holds_verdicts());
    assert_eq!(session.read_back.doubts(10, now + PAUSE), doubts, "it is asked again soon");
    session.kept(Vec::new(), Some(700 * SECOND), 1002);
    assert!(!session.read_back.holds_verdicts());

    let mut session = Session::new(start());
    session.hand_over(&[1], 1001);
    assert!(session.read_back.not_kept(false, now) && !session.read_back.holds_verdicts());
}

#[test]
fn while_the_floor_stands_an_event_that_is_put_off_is_kept_since_an_earlier_session_may_have_published_it() {
    let mut session = Session::after(Vec::new());
    session.hand_over(&[1], 1001);
    let new = Event { created_at_us: 1010 * SECOND, ..(*samples::event(2)).clone() };
    session.read_back.put_off(&new, session.at(1011));
    session.read_back.put_off(&samples::event(3), session.at(1002));
    assert_eq!(session.old(1002), [in_doubt(3, 968, false)]);
}
