//! The agenda of a run: everything that is going to happen, by time. Items for the same moment happen in the order in
//! which they were added.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use outbox_core::SlotSize;

use crate::{database::Micros, troubles::Undo};

/// Something that is going to happen. The numbers are those of transactions, relays, sessions, connections and
/// operations.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A client begins a transaction.
    Emit,
    Commit(u64),
    Show(u64),
    Flush,
    Trouble,
    Undo(Undo),
    /// A relay's process starts, or connects again.
    Start(usize),
    Wake(usize, u64, u64),
    Read(usize, u64),
    Connect(usize, u64),
    /// A relay notices that its connection, the last number, was lost. `true`: a message may be the reason.
    Lost(usize, u64, u64, &'static str, bool),
    Drain(usize, u64),
    Blocked(usize, u64, u64, bool),
    Keepalive(usize, u64),
    /// A session's slot is created, unless one of these transactions is still running.
    CreateSlot(usize, u64, Vec<u64>),
    /// The server notices that a reader of the slot is gone.
    FreeSlot(u64),
    /// A look at the slot reaches the server, and then its result reaches the relay.
    LookAtSlot(usize, u64),
    SlotSeen(usize, u64, Option<SlotSize>),
    Execute(u64),
    Finish(u64),
    Acknowledge(u64, u64),
    /// A connection's next message reaches the broker, and then its answers reach the relay.
    Step(u64),
    Answers(usize, u64, u64),
    /// A side channel of this connection gives up waiting for the mute queue to which this event went.
    GiveUp(u64, i64),
    Look,
}

impl What {
    /// The relay whose process it concerns; `None`: it happens elsewhere.
    pub(crate) fn relay(&self) -> Option<usize> {
        match self {
            Self::Start(relay)
            | Self::Wake(relay, ..)
            | Self::Read(relay, _)
            | Self::Connect(relay, _)
            | Self::CreateSlot(relay, ..)
            | Self::Lost(relay, ..)
            | Self::Drain(relay, _)
            | Self::Blocked(relay, ..)
            | Self::SlotSeen(relay, ..)
            | Self::Answers(relay, ..) => Some(*relay),
            _ => None,
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Agenda {
    items: BinaryHeap<Reverse<Item>>,
    /// How many items were ever added.
    scheduled: u64,
}

impl Agenda {
    pub(crate) fn put(&mut self, at: Micros, what: What) {
        self.scheduled += 1;
        self.items.push(Reverse(Item { at, number: self.scheduled, what }));
    }

    /// Takes the next item, with its time.
    pub(crate) fn take(&mut self) -> Option<(Micros, What)> {
        self.items.pop().map(|Reverse(item)| (item.at, item.what))
    }

    /// Takes all items, whatever their times, in the order in which they were added.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = What> + use<> {
        let mut items: Vec<Item> = self.items.drain().map(|Reverse(item)| item).collect();
        items.sort_unstable_by_key(|item| item.number);
        items.into_iter().map(|item| item.what)
    }
}

#[derive(Clone)]
struct Item {
    at: Micros,
    number: u64,
    what: What,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
