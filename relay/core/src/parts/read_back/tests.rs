//! Which events are kept in the table, and from when on a session reads.

use std::sync::Arc;

use super::*;
use crate::{interface::Abilities, samples};

const SECOND: i64 = 1_000_000;

fn reading(last_settled_us: Option<i64>, in_doubt: Vec<InDoubt>) -> ReadBack {
    let abilities = Abilities { reads_back: true, ..Abilities::default() };
    let start = Start { abilities, last_settled_us, in_doubt, ..Start::default() };
    ReadBack::new(&start, Duration::from_secs(30), samples::config().limits)
}

fn begun(in_doubt: Vec<InDoubt>) -> ReadBack {
    let mut read_back = reading(Some(1000 * SECOND), in_doubt);
    read_back.take();
    read_back
}

fn hand_over(read_back: &mut ReadBack, seqs: &[i64], now_us: i64) {
    let events: Vec<_> = seqs.iter().map(|seq| samples::event(*seq)).collect();
    read_back.handed_over(events.iter().map(Arc::as_ref), now_us);
}

fn id(seq: u128) -> Uuid {
    Uuid::from_u128(seq)
}

fn verdict(seq: u128, status: Status) -> Verdict {
    Verdict { id: id(seq), status, error: None, retry_in: None, holds_key: false }
}

/// What is kept now, by event.
fn old(read_back: &mut ReadBack, now_us: i64) -> Vec<InDoubt> {
    let mut old = read_back.doubts(10, now_us).map_or_else(Vec::new, |doubts| doubts.events);
    old.sort_by_key(|kept| kept.id);
    old
}

fn in_doubt(seq: u128, since_us: i64, is_delivered: bool) -> InDoubt {
    InDoubt { id: id(seq), replays: 0, since_us, is_delivered }
}

#[test]
fn a_session_reads_from_before_the_last_verdict_and_all_if_there_is_none() {
    assert_eq!(reading(Some(100 * SECOND), Vec::new()).take(), Some((Some(68 * SECOND), Vec::new())));
    assert_eq!(reading(None, Vec::new()).take(), Some((None, Vec::new())));
    assert_eq!(
        ReadBack::new(&Start::default(), Duration::ZERO, samples::config().limits).take(),
        None,
        "the sink cannot"
    );
}

#[test]
fn once_the_broker_has_forgotten_the_sink_it_reads_from_the_oldest_event_without_an_answer() {
    let mut read_back = begun(Vec::new());
    read_back.lost_identity();
    assert_eq!(read_back.take(), None, "nothing is unknown");
    hand_over(&mut read_back, &[1, 2], 10 * SECOND);
    hand_over(&mut read_back, &[2, 3], 20 * SECOND);
    read_back.answered(&id(1), &Outcome::Delivered);
    read_back.lost_identity();
    assert_eq!(read_back.take(), Some((Some(8 * SECOND), Vec::new())));
    hand_over(&mut read_back, &[3], 30 * SECOND);
    read_back.lost_identity();
    assert_eq!(read_back.take(), Some((Some(28 * SECOND), Vec::new())), "the sink knows what it read before");
}

#[test]
fn an_event_whose_verdict_is_missing_for_long_is_kept_once_and_again_when_it_is_delivered() {
    let mut read_back = begun(Vec::new());
    hand_over(&mut read_back, &[1], 0);
    hand_over(&mut read_back, &[2], 5 * SECOND);
    assert_eq!(old(&mut read_back, 7 * SECOND), [], "eight seconds have not passed");
    let kept = old(&mut read_back, 15 * SECOND);
    assert_eq!(kept, [in_doubt(1, 0, false), in_doubt(2, 5 * SECOND, false)]);
    assert_eq!(old(&mut read_back, 16 * SECOND), [], "the statement may have failed, and is tried at the next look");
    assert_eq!(old(&mut read_back, 23 * SECOND).len(), 2);
    read_back.kept(&Doubts { events: kept, last_settled_us: None });
    assert_eq!(old(&mut read_back, 23 * SECOND), []);
    read_back.answered(&id(1), &Outcome::Delivered);
    read_back.answered(&id(2), &Outcome::Retry("nack".to_owned()));
    assert_eq!(old(&mut read_back, 60 * SECOND), [in_doubt(1, 0, true)], "the broker does not have the other");
    read_back.settled(&verdict(1, Status::Sent), false);
    assert_eq!(old(&mut read_back, 90 * SECOND), []);
}

#[test]
fn an_event_that_was_emitted_since_the_session_began_counts_from_its_own_time() {
    let mut read_back = begun(Vec::new());
    hand_over(&mut read_back, &[1], 1001 * SECOND);
    let new = Event { created_at_us: 1010 * SECOND, ..(*samples::event(2)).clone() };
    read_back.handed_over([&new].into_iter(), 1011 * SECOND);
    let kept = old(&mut read_back, 1020 * SECOND);
    assert_eq!(kept, [in_doubt(1, 968 * SECOND, false), in_doubt(2, 1011 * SECOND, false)]);
}

#[test]
fn an_event_that_the_sink_cannot_read_back_counts_from_the_beginning_of_the_sessions_first_read() {
    let mut read_back = begun(Vec::new());
    hand_over(&mut read_back, &[1], 1001 * SECOND);
    read_back.answered(&id(1), &Outcome::Unread { is_behind: false, reason: "no leader".to_owned() });
    read_back.settled(&verdict(1, Status::Pending), false);
    assert_eq!(old(&mut read_back, 1002 * SECOND), [in_doubt(1, 968 * SECOND, false)]);
}

#[test]
fn what_an_earlier_session_has_kept_is_found_or_read_back_from_its_own_time() {
    let mut read_back =
        reading(Some(1000 * SECOND), vec![in_doubt(1, 100 * SECOND, false), in_doubt(2, 100 * SECOND, true)]);
    assert_eq!(read_back.take(), Some((Some(968 * SECOND), vec![(id(1), 98 * SECOND)])));
    let mut events: Vec<_> = [1, 2, 3].map(samples::event).into();
    assert_eq!(read_back.take_delivered(&mut events), [id(2)]);
    read_back.handed_over(events.iter().map(Arc::as_ref), 1001 * SECOND);
    assert_eq!(old(&mut read_back, 1002 * SECOND), [], "it is kept already");
    read_back.answered(&id(1), &Outcome::Found);
    assert_eq!(old(&mut read_back, 1012 * SECOND)[..1], [in_doubt(1, 100 * SECOND, true)]);
}
