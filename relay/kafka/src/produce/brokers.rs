//! Which brokers there are, and what is in flight to each. Pure: time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use client_socket::Host;

use super::cluster::Place;

/// Most requests in flight to a broker, each with at most one batch of a partition.
const MOST_REQUESTS: usize = 5;
/// The pause before a broker is connected to again.
const RECONNECT: Duration = Duration::from_millis(100);

/// A batch in flight: its partition, and the number of its first record.
pub(super) type Sent = (Place, i32);

/// All brokers, by their ids.
#[derive(Debug, Default)]
pub(super) struct Brokers(BTreeMap<i32, Broker>);

#[derive(Debug, Default)]
struct Broker {
    host: Option<Host>,
    state: Connection,
    /// The batches of each request in flight.
    requests: BTreeMap<i32, Vec<Sent>>,
    next: i32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Connection {
    #[default]
    None,
    Opening,
    Open,
    /// Nothing is tried until then.
    Waiting(Instant),
}

impl Brokers {
    /// The cluster has named these brokers.
    pub(super) fn learn(&mut self, named: Vec<(i32, Host)>) {
        for (id, host) in named {
            self.0.entry(id).or_default().host = Some(host);
        }
    }

    /// Which of these brokers are to be connected to now.
    pub(super) fn connects(&mut self, wanted: BTreeSet<i32>, now: Instant) -> Vec<(i32, Host)> {
        let mut connects = Vec::new();
        for id in wanted {
            let Some(broker) = self.0.get_mut(&id) else { continue };
            let is_due = match broker.state {
                Connection::None => true,
                Connection::Waiting(until) => until <= now,
                Connection::Opening | Connection::Open => false,
            };
            if let Some(host) = broker.host.clone().filter(|_| is_due) {
                broker.state = Connection::Opening;
                connects.push((id, host));
            }
        }
        connects
    }

    pub(super) fn connected(&mut self, id: i32) {
        if let Some(broker) = self.0.get_mut(&id) {
            broker.state = Connection::Open;
        }
    }

    /// There is no connection to the broker, or no longer. Returns what was in flight to it.
    pub(super) fn disconnected(&mut self, id: i32, now: Instant) -> Vec<Sent> {
        let Some(broker) = self.0.get_mut(&id) else { return Vec::new() };
        broker.state = Connection::Waiting(now + RECONNECT);
        std::mem::take(&mut broker.requests).into_values().flatten().collect()
    }

    pub(super) fn ids(&self) -> Vec<i32> {
        self.0.keys().copied().collect()
    }

    /// Whether the broker may take one more request.
    pub(super) fn has_room(&self, id: i32) -> bool {
        let has_room = |broker: &Broker| broker.state == Connection::Open && broker.requests.len() < MOST_REQUESTS;
        self.0.get(&id).is_some_and(has_room)
    }

    /// A request with these batches leaves for a broker that [has room](Self::has_room). Returns its number.
    pub(super) fn leaves(&mut self, id: i32, sent: Vec<Sent>) -> i32 {
        let broker = self.0.entry(id).or_default();
        let number = broker.next;
        broker.next = broker.next.wrapping_add(1);
        broker.requests.insert(number, sent);
        number
    }

    /// The broker has answered this request. Returns its batches; `None`: there is no such request.
    pub(super) fn answered(&mut self, id: i32, number: i32) -> Option<Vec<Sent>> {
        self.0.get_mut(&id)?.requests.remove(&number)
    }

    /// When brokers that are waited for may be connected to.
    pub(super) fn reconnects(&self) -> impl Iterator<Item = Instant> {
        self.0.values().filter_map(|broker| match broker.state {
            Connection::Waiting(until) => Some(until),
            _ => None,
        })
    }
}
