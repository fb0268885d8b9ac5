use std::sync::Arc;

use bytes::Bytes;
use outbox_core::{Destination, Event, Text};

use super::*;
use crate::sink::kafka::envelope::Envelope;

const TOPIC: &str = "orders";

fn event(seq: u128) -> Outbound {
    let event = Event {
        id: Uuid::from_u128(seq),
        seq: 1,
        destination: Destination { exchange: None, topic: Text::from_static(TOPIC) },
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: Ok(Bytes::new()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    };
    Outbound::new(Arc::new(event), TOPIC.into(), None, Envelope::None)
}

/// Reading from a second after 1970 on, and older events.
fn reading(older: Older) -> ReadBack {
    let mut read_back = ReadBack::new(true);
    read_back.begin(Some(1_000_000), older);
    read_back
}

/// Hands the event over; the time in milliseconds from which the topic is asked for, if it is.
fn asks(read_back: &mut ReadBack, seq: u128) -> Option<i64> {
    match read_back.take(event(seq)) {
        Taken::Asks(_, From::Time(ms)) => Some(ms),
        Taken::Asks(..) => panic!("it asks for something else"),
        _ => None,
    }
}

/// The topic is read and has these events. What is answered, what leaves, and from when on it is to be read again.
fn read(read_back: &mut ReadBack, found: &[u128], extent: Extent) -> (Vec<u128>, Vec<u128>, Option<From>) {
    let marks = found.iter().map(|seq| (Uuid::from_u128(*seq), 0)).collect();
    let After { answers, leaving, asks, .. } =
        read_back.read(TopicRead { topic: TOPIC.to_owned(), marks, extent, unfenced: None });
    let answered = answers.iter().map(|answer| answer.id.as_u128()).collect();
    (answered, leaving.iter().map(|event| event.id().as_u128()).collect(), asks)
}

#[test]
fn a_topic_is_read_once_and_what_it_has_is_answered() {
    let mut read_back = reading(Older::default());
    assert_eq!(asks(&mut read_back, 1), Some(1000));
    assert_eq!(asks(&mut read_back, 2), None, "it waits");
    assert_eq!(read(&mut read_back, &[2], Extent::Whole), (vec![2], vec![1], None));
    assert!(
        matches!(read_back.take(event(2)), Taken::Found(_)) && matches!(read_back.take(event(3)), Taken::Leaves(_))
    );
}

#[test]
fn what_is_older_is_read_afterwards_so_that_a_topic_with_more_than_may_be_read_loses_only_that() {
    let mut read_back = reading(Older { since_us: Some(500_000), in_doubt: Vec::new() });
    assert_eq!(asks(&mut read_back, 1), Some(1000));
    assert_eq!(read(&mut read_back, &[1], Extent::Whole), (vec![], vec![], Some(From::Time(500))));
    assert_eq!(asks(&mut read_back, 2), None, "it waits");
    assert_eq!(read(&mut read_back, &[], Extent::Part("it has much".to_owned())), (vec![1], vec![2], None));
}

#[test]
fn an_event_in_doubt_has_its_topic_read_once_more_from_the_earliest_time_of_all() {
    let in_doubt = [(7, 300_000), (8, 100_000)].map(|(seq, us)| (Uuid::from_u128(seq), us)).into();
    let mut read_back = reading(Older { since_us: None, in_doubt });
    assert_eq!(asks(&mut read_back, 1), Some(1000));
    assert_eq!(read(&mut read_back, &[], Extent::Whole), (vec![], vec![1], None));
    assert_eq!(asks(&mut read_back, 7), Some(100));
    assert_eq!(read(&mut read_back, &[8], Extent::Whole), (vec![], vec![7], None));
    assert!(matches!(read_back.take(event(8)), Taken::Found(_)), "the topic is read far enough");
}

#[test]
fn events_of_a_topic_that_cannot_be_read_are_unread_and_the_next_one_asks_again() {
    let mut read_back = reading(Older::default());
    assert_eq!(asks(&mut read_back, 1), Some(1000));
    let reason = kafka_producer::Reason { code: 5, text: "LEADER_NOT_AVAILABLE".to_owned() };
    assert_eq!(read(&mut read_back, &[], Extent::Failed(reason)), (vec![1], vec![], None));
    assert_eq!(asks(&mut read_back, 1), Some(1000));
}
