//! [`Deliveries`] against a model of the broker: whatever arrives in whatever order and however confirms are coalesced,
//! every message gets its own verdict.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use uuid::Uuid;

use super::{Blame, Deliveries};
use crate::{
    Answer, Verdict,
    message::{Example, example},
};

/// What the broker does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Routed,
    Unroutable,
    Nacked,
    ClosesChannel,
}

#[derive(Debug)]
enum Wire {
    Return(Uuid),
    Ack(u64, bool),
    Nack(u64, bool),
    ChannelClose,
}

/// One channel of RabbitMQ, as `rabbit_channel` works: publishes are taken in order, a return goes out at once, confirms
/// are collected and coalesced later.
#[derive(Default)]
struct Broker {
    fates: Vec<Fate>,
    /// Published and not looked at yet, with the tag.
    unread: VecDeque<(u64, usize)>,
    next_tag: u64,
    /// Tags whose queues have not confirmed.
    unconfirmed: BTreeMap<u64, Fate>,
    /// Tags to be acked and nacked.
    acks: BTreeSet<u64>,
    nacks: BTreeSet<u64>,
    wire: VecDeque<Wire>,
    /// Places of the messages that were looked at, in order, repeated ones included.
    arrived: Vec<usize>,
    closed: bool,
}

impl Broker {
    fn publish(&mut self, place: usize) {
        self.next_tag += 1;
        self.unread.push_back((self.next_tag, place));
    }

    fn look_at_next(&mut self) {
        let Some((tag, place)) = self.unread.pop_front() else {
            return;
        };
        self.arrived.push(place);
        match self.fates[place] {
            Fate::Unroutable => {
                self.wire.push_back(Wire::Return(Uuid::from_u128(place as u128)));
                self.acks.insert(tag);
            }
            Fate::ClosesChannel => {
                let arrived = std::mem::take(&mut self.arrived);
                let (fates, mut wire) = (std::mem::take(&mut self.fates), std::mem::take(&mut self.wire));
                wire.push_back(Wire::ChannelClose);
                *self = Self { fates, wire, arrived, closed: true, ..Self::default() };
            }
            fate => drop(self.unconfirmed.insert(tag, fate)),
        }
    }

    /// The queue has answered for one of the messages it has.
    fn queue_answers(&mut self, which: usize) {
        let tags: Vec<u64> = self.unconfirmed.keys().copied().collect();
        let Some(tag) = tags.get(which % tags.len().max(1)) else {
            return;
        };
        match self.unconfirmed.remove(tag) {
            Some(Fate::Nacked) => self.nacks.insert(*tag),
            _ => self.acks.insert(*tag),
        };
    }

    fn send_confirms(&mut self) {
        let (acks, nacks) = (std::mem::take(&mut self.acks), std::mem::take(&mut self.nacks));
        self.coalesce(&acks, &nacks, Wire::Ack);
        self.coalesce(&nacks, &acks, Wire::Nack);
    }

    fn coalesce(&mut self, tags: &BTreeSet<u64>, others: &BTreeSet<u64>, answer: fn(u64, bool) -> Wire) {
        let open = self.unconfirmed.keys().next().into_iter().chain(others.first());
        let cutoff = open.copied().min().unwrap_or(u64::MAX);
        self.wire.extend(tags.range(..cutoff).next_back().map(|tag| answer(*tag, true)));
        self.wire.extend(tags.range(cutoff..).map(|tag| answer(*tag, false)));
    }
}

/// The publisher's side of the model.
struct Publisher {
    deliveries: Deliveries<Example>,
    answers: Vec<Answer>,
}

impl Publisher {
    fn publish_next(&mut self, broker: &mut Broker) {
        if broker.closed {
            return; // the new channel is not open yet
        }
        if let Some(message) = self.deliveries.next() {
            broker.publish(message.id as usize);
            self.deliveries.published(message);
        }
    }

    fn receive_next(&mut self, broker: &mut Broker) {
        let answers = &mut self.answers;
        match broker.wire.pop_front() {
            None => {}
            Some(Wire::Return(id)) => {
                self.deliveries.returned(Some(id), 312, "NO_ROUTE".to_owned()).unwrap();
            }
            Some(Wire::Ack(tag, multiple)) => {
                self.deliveries.answered(tag, multiple, &Verdict::Confirmed, answers).unwrap();
            }
            Some(Wire::Nack(tag, multiple)) => {
                self.deliveries.answered(tag, multiple, &Verdict::Nacked, answers).unwrap();
            }
            Some(Wire::ChannelClose) => {
                match self.deliveries.channel_closed(404, |message| message.exchange.is_some(), answers) {
                    Blame::Nobody => panic!("somebody must have closed the channel"),
                    Blame::OneOf(count) => assert!(count > 0),
                    Blame::Message(message) => {
                        let verdict = Verdict::Refused { code: 404, text: String::new() };
                        answers.push(Answer { id: Uuid::from_u128(message.id), verdict });
                    }
                }
                (broker.closed, broker.next_tag) = (false, 0);
            }
        }
    }
}

/// Exchanges that the broker does not have.
const MISSING: [&str; 2] = ["missing", "gone"];

/// One that closes the channel names an exchange; so do some others.
fn message_with(place: usize, fate: Fate) -> Example {
    let exchange = match fate {
        Fate::ClosesChannel => Some(MISSING[place % MISSING.len()]),
        _ => place.is_multiple_of(3).then_some("other"),
    };
    Example { exchange: exchange.map(str::to_owned), ..example(place as u128) }
}

fn verdict_of(fate: Fate) -> Verdict {
    match fate {
        Fate::Routed => Verdict::Confirmed,
        Fate::Nacked => Verdict::Nacked,
        Fate::Unroutable => Verdict::Returned { code: 312, text: "NO_ROUTE".to_owned() },
        Fate::ClosesChannel => Verdict::Refused { code: 404, text: String::new() },
    }
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Routed),
        3 => Just(Fate::Unroutable),
        1 => Just(Fate::Nacked),
        1 => Just(Fate::ClosesChannel),
    ];
    proptest::collection::vec(fate, 1..60)
}

proptest! {
    #[test]
    fn every_message_gets_exactly_its_own_verdict(
        fates in fates(),
        limit in 1usize..20,
        schedule in proptest::collection::vec((0u8..5, any::<u8>()), 0..400),
    ) {
        let mut broker = Broker { fates: fates.clone(), ..Broker::default() };
        let mut publisher = Publisher { deliveries: Deliveries::new(limit), answers: Vec::new() };
        let messages = fates.iter().enumerate().map(|(place, fate)| message_with(place, *fate));
        publisher.deliveries.accept(messages.collect());

        let to_the_end = (0u8..5).cycle().map(|step| (step, 0)).take(200 * fates.len());
        for (step, which) in schedule.into_iter().chain(to_the_end) {
            match step {
                0 => publisher.publish_next(&mut broker),
                1 => broker.look_at_next(),
                2 => broker.queue_answers(which.into()),
                3 => broker.send_confirms(),
                _ => publisher.receive_next(&mut broker),
            }
            prop_assert!(broker.unread.len() + broker.unconfirmed.len() <= limit);
        }

        prop_assert_eq!(publisher.deliveries.unanswered(), 0);
        let verdicts: BTreeMap<_, _> =
            publisher.answers.iter().map(|answer| (answer.id.as_u128() as usize, &answer.verdict)).collect();
        prop_assert_eq!((verdicts.len(), publisher.answers.len()), (fates.len(), fates.len()), "one answer each");
        for (place, fate) in fates.iter().enumerate() {
            prop_assert_eq!(verdicts[&place], &verdict_of(*fate));
        }
        for place in 0..fates.len() {
            let arrivals = broker.arrived.iter().filter(|arrived| **arrived == place).count();
            prop_assert!(arrivals <= 1 + MISSING.len(), "message {} arrived {} times", place, arrivals);
        }
        let mut seen = BTreeSet::new();
        let first_arrivals: Vec<_> = broker.arrived.iter().filter(|place| seen.insert(**place)).collect();
        prop_assert!(first_arrivals.is_sorted(), "the broker saw new messages out of order: {:?}", first_arrivals);
    }
}

#[test]
fn only_those_that_the_broker_can_mean_are_published_one_at_a_time() {
    let mut deliveries = Deliveries::new(10);
    let named = |id| Example { exchange: Some("missing".to_owned()), ..example(id) };
    deliveries.accept(vec![example(0), named(1), example(2), example(3)]);
    let publish = |deliveries: &mut Deliveries<Example>| -> Vec<u128> {
        let next = || {
            let message = deliveries.next()?;
            let id = message.id;
            deliveries.published(message);
            Some(id)
        };
        std::iter::from_fn(next).collect()
    };
    let mut answers = Vec::new();
    assert_eq!(publish(&mut deliveries), [0, 1, 2, 3]);
    let by_name = |message: &Example| message.exchange.is_some();
    assert!(matches!(deliveries.channel_closed(404, by_name, &mut answers), Blame::OneOf(1)));
    assert_eq!(publish(&mut deliveries), [0], "the suspect waits until it is alone");
    deliveries.answered(1, false, &Verdict::Confirmed, &mut answers).unwrap();
    assert_eq!(publish(&mut deliveries), [1]);
    assert!(matches!(deliveries.channel_closed(404, by_name, &mut answers), Blame::Message(_)));
    assert_eq!(publish(&mut deliveries), [2, 3]);

    deliveries.accept(vec![named(4), example(5)]);
    deliveries.answered(2, true, &Verdict::Confirmed, &mut answers).unwrap();
    assert_eq!(publish(&mut deliveries), [4], "a second one leaves alone at once");
    deliveries.answered(3, false, &Verdict::Confirmed, &mut answers).unwrap();
    deliveries.accept(vec![named(6), example(7)]);
    assert_eq!(publish(&mut deliveries), [5, 6, 7], "the exchange is there now");
}

#[test]
fn a_message_is_published_again_only_when_its_channel_was_closed() {
    let mut deliveries = Deliveries::new(10);
    let mut answers = Vec::new();
    deliveries.accept((0..4).map(example).collect());
    while let Some(message) = deliveries.next() {
        deliveries.published(message);
    }
    deliveries.answered(1, true, &Verdict::Confirmed, &mut answers).unwrap();
    assert!(matches!(deliveries.channel_closed(406, |_| true, &mut answers), Blame::OneOf(3)));

    let mut alone = Vec::new();
    for _ in 0..3 {
        let message = deliveries.next().unwrap();
        alone.push(message.id);
        deliveries.published(message);
        assert!(deliveries.next().is_none(), "one at a time");
        deliveries.answered(alone.len() as u64, false, &Verdict::Confirmed, &mut answers).unwrap();
    }
    assert_eq!(alone, [1, 2, 3]);
    assert_eq!(deliveries.unanswered(), 0);
}
