//! [`Deliveries`] against a model of the broker: in whatever order frames arrive, and however acks are coalesced, every
//! message gets its own confirm.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use uuid::Uuid;

use super::{Blame, Deliveries};
use crate::publish::{
    confirm::{Confirm, ConfirmKind},
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

/// One channel of RabbitMQ, as `rabbit_channel` works: publishes are taken in order, a return goes out at once,
/// confirms are collected and coalesced later.
#[derive(Default)]
struct Broker {
    fates: Vec<Fate>,
    /// Tags and places of messages that are published and not looked at yet.
    unread: VecDeque<(u64, usize)>,
    next_tag: u64,
    /// Tags that their queues have not confirmed.
    unconfirmed: BTreeMap<u64, Fate>,
    /// Tags to be acked and nacked.
    acks: BTreeSet<u64>,
    nacks: BTreeSet<u64>,
    wire: VecDeque<Wire>,
    /// Places of the messages that were looked at, in order, with repetitions.
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

    /// A queue confirms one of the messages that it has.
    fn queue_confirms(&mut self, which: usize) {
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

    fn coalesce(&mut self, tags: &BTreeSet<u64>, others: &BTreeSet<u64>, confirm: fn(u64, bool) -> Wire) {
        let open = self.unconfirmed.keys().next().into_iter().chain(others.first());
        let cutoff = open.copied().min().unwrap_or(u64::MAX);
        self.wire.extend(tags.range(..cutoff).next_back().map(|tag| confirm(*tag, true)));
        self.wire.extend(tags.range(cutoff..).map(|tag| confirm(*tag, false)));
    }
}

/// The publisher's side of the model.
struct Publisher {
    deliveries: Deliveries<Example>,
    confirms: Vec<Confirm>,
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
        let confirms = &mut self.confirms;
        match broker.wire.pop_front() {
            None => {}
            Some(Wire::Return(id)) => {
                self.deliveries.returned(Some(id), 312, "NO_ROUTE".to_owned()).unwrap();
            }
            Some(Wire::Ack(tag, multiple)) => {
                self.deliveries.confirmed(tag, multiple, &ConfirmKind::Acked, confirms).unwrap();
            }
            Some(Wire::Nack(tag, multiple)) => {
                self.deliveries.confirmed(tag, multiple, &ConfirmKind::Nacked, confirms).unwrap();
            }
            Some(Wire::ChannelClose) => {
                match self.deliveries.channel_closed(404, |message| message.exchange.is_some(), confirms) {
                    Blame::Nobody => panic!("somebody must have closed the channel"),
                    Blame::OneOf(count) => assert!(count > 0),
                    Blame::Message(message) => {
                        let kind = ConfirmKind::Closed { code: 404, text: String::new() };
                        confirms.push(Confirm { id: Uuid::from_u128(message.id), kind });
                    }
                }
                (broker.closed, broker.next_tag) = (false, 0);
            }
        }
    }
}

/// Exchanges that the broker does not have.
const MISSING: [&str; 2] = ["missing", "gone"];

/// A message that closes the channel names an exchange, and so do some others.
fn message_with(place: usize, fate: Fate) -> Example {
    let exchange = match fate {
        Fate::ClosesChannel => Some(MISSING[place % MISSING.len()]),
        _ => place.is_multiple_of(3).then_some("other"),
    };
    Example { exchange: exchange.map(str::to_owned), ..example(place as u128) }
}

fn kind_of(fate: Fate) -> ConfirmKind {
    match fate {
        Fate::Routed => ConfirmKind::Acked,
        Fate::Nacked => ConfirmKind::Nacked,
        Fate::Unroutable => ConfirmKind::Returned { code: 312, text: "NO_ROUTE".to_owned() },
        Fate::ClosesChannel => ConfirmKind::Closed { code: 404, text: String::new() },
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
    fn every_message_gets_exactly_its_own_confirm(
        fates in fates(),
        limit in 1usize..20,
        schedule in proptest::collection::vec((0u8..5, any::<u8>()), 0..400),
    ) {
        let mut broker = Broker { fates: fates.clone(), ..Broker::default() };
        let mut publisher = Publisher { deliveries: Deliveries::new(limit), confirms: Vec::new() };
        let messages = fates.iter().enumerate().map(|(place, fate)| message_with(place, *fate));
        publisher.deliveries.accept(messages.collect());

        let to_the_end = (0u8..5).cycle().map(|step| (step, 0)).take(200 * fates.len());
        for (step, which) in schedule.into_iter().chain(to_the_end) {
            match step {
                0 => publisher.publish_next(&mut broker),
                1 => broker.look_at_next(),
                2 => broker.queue_confirms(which.into()),
                3 => broker.send_confirms(),
                _ => publisher.receive_next(&mut broker),
            }
            prop_assert!(broker.unread.len() + broker.unconfirmed.len() <= limit);
        }

        prop_assert_eq!(publisher.deliveries.unconfirmed(), 0);
        let kinds: BTreeMap<_, _> =
            publisher.confirms.iter().map(|confirm| (confirm.id.as_u128() as usize, &confirm.kind)).collect();
        prop_assert_eq!((kinds.len(), publisher.confirms.len()), (fates.len(), fates.len()), "one confirm each");
        for (place, fate) in fates.iter().enumerate() {
            prop_assert_eq!(kinds[&place], &kind_of(*fate));
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
    let mut confirms = Vec::new();
    assert_eq!(publish(&mut deliveries), [0, 1, 2, 3]);
    let by_name = |message: &Example| message.exchange.is_some();
    assert!(matches!(deliveries.channel_closed(404, by_name, &mut confirms), Blame::OneOf(1)));
    assert_eq!(publish(&mut deliveries), [0], "the suspect waits until it is alone");
    deliveries.confirmed(1, false, &ConfirmKind::Acked, &mut confirms).unwrap();
    assert_eq!(publish(&mut deliveries), [1]);
    assert!(matches!(deliveries.channel_closed(404, by_name, &mut confirms), Blame::Message(_)));
    assert_eq!(publish(&mut deliveries), [2, 3]);

    deliveries.accept(vec![named(4), example(5)]);
    deliveries.confirmed(2, true, &ConfirmKind::Acked, &mut confirms).unwrap();
    assert_eq!(publish(&mut deliveries), [4], "a second one leaves alone at once");
    deliveries.confirmed(3, false, &ConfirmKind::Acked, &mut confirms).unwrap();
    deliveries.accept(vec![named(6), example(7)]);
    assert_eq!(publish(&mut deliveries), [5, 6, 7], "the exchange is there now");
}

#[test]
fn a_message_is_published_again_only_when_its_channel_was_closed() {
    let mut deliveries = Deliveries::new(10);
    let mut confirms = Vec::new();
    deliveries.accept((0..4).map(example).collect());
    while let Some(message) = deliveries.next() {
        deliveries.published(message);
    }
    deliveries.confirmed(1, true, &ConfirmKind::Acked, &mut confirms).unwrap();
    assert!(matches!(deliveries.channel_closed(406, |_| true, &mut confirms), Blame::OneOf(3)));

    let mut alone = Vec::new();
    for _ in 0..3 {
        let message = deliveries.next().unwrap();
        alone.push(message.id);
        deliveries.published(message);
        assert!(deliveries.next().is_none(), "one at a time");
        deliveries.confirmed(alone.len() as u64, false, &ConfirmKind::Acked, &mut confirms).unwrap();
    }
    assert_eq!(alone, [1, 2, 3]);
    assert_eq!(deliveries.unconfirmed(), 0);
}
