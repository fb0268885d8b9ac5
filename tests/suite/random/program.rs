//! What one client does: transactions of every kind, one after the other, and replays between them. Pure.

use std::fmt;

use fastrand::Rng;

/// One client's work.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Step {
    Transaction(Transaction),
    /// Replays one of the client's committed events, by this number modulo their count.
    Replay(usize),
    /// Does nothing, for so many ms.
    Pause(u32),
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) blocks: Vec<Block>,
    pub(super) end: End,
}

/// Part of a transaction.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) events: Vec<Plan>,
    /// Whether the business row is written before the events are emitted, or after.
    pub(super) business_first: bool,
    /// It is a savepoint's, and rolled back to it.
    pub(super) undone: bool,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) key: Option<u32>,
    pub(super) kind: Kind,
    /// For [`Kind::Deferred`]: by so many ms.
    pub(super) delay: u32,
    /// Characters of payload.
    pub(super) size: u32,
}

/// What is to become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Plain,
    /// Has a time of its own.
    Deferred,
    /// Its queue does not take it while that is full.
    Nackable,
    /// No queue is bound for it.
    Unroutable,
    /// It names an exchange that does not exist.
    NoExchange,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Commit,
    Rollback,
    /// The client is gone before it commits.
    Disconnect,
    /// The client is gone so many µs after it asked for the commit.
    Vanish(u32),
    /// In two phases, with so many ms between them.
    Prepared {
        ms: u32,
        commit: bool,
    },
}

/// One of them, any.
pub(super) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

impl Program {
    pub(super) fn new(rng: &mut Rng, keys: u32) -> Self {
        // Each missing exchange closes the channel and has all in flight repeated, so they are few.
        let mut missing = rng.usize(..=1);
        let mut steps = Vec::new();
        for _ in 0..rng.usize(40..100) {
            steps.push(Step::Pause(rng.u32(..60)));
            steps.push(match rng.u32(..8) {
                0 => Step::Replay(rng.usize(..100_000)),
                _ => Step::Transaction(Transaction::new(rng, keys, &mut missing)),
            });
        }
        Self { steps }
    }

    pub(super) fn transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.steps.iter().filter_map(|step| if let Step::Transaction(one) = step { Some(one) } else { None })
    }
}

impl Transaction {
    fn new(rng: &mut Rng, keys: u32, missing: &mut usize) -> Self {
        let mut left = match rng.u32(..10) {
            0..4 => 1,
            4..7 => rng.usize(2..10),
            7..9 => rng.usize(10..50),
            _ => rng.usize(50..=200),
        };
        let mut blocks = Vec::new();
        while left > 0 {
            let count = rng.usize(1..=left);
            left -= count;
            let events = (0..count).map(|_| Plan::new(rng, keys, missing)).collect();
            blocks.push(Block { events, business_first: rng.bool(), undone: rng.u32(..6) == 0 });
        }
        let end = match rng.u32(..40) {
            0..2 => End::Rollback,
            2 => End::Disconnect,
            3 => End::Vanish(rng.u32(..2_000)),
            4..6 => End::Prepared { ms: rng.u32(..200), commit: rng.u32(..3) > 0 },
            _ => End::Commit,
        };
        Self { blocks, end }
    }

    /// Every key it touches, each once, in the order in which all clients lock them.
    pub(super) fn keys(&self) -> Vec<i32> {
        let events = self.blocks.iter().flat_map(|block| &block.events);
        let mut keys: Vec<i32> = events.filter_map(|event| Some(event.key?.cast_signed())).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Plan {
    fn new(rng: &mut Rng, keys: u32, missing: &mut usize) -> Self {
        let kind = match rng.u32(..100) {
            0..4 => Kind::Deferred,
            4..7 => Kind::Nackable,
            7..9 => Kind::Unroutable,
            9 if *missing > 0 => {
                *missing -= 1;
                Kind::NoExchange
            }
            _ => Kind::Plain,
        };
        let key = (rng.u32(..5) > 0).then(|| rng.u32(..keys));
        let size = if rng.u32(..100) == 0 { rng.u32(..200_000) } else { rng.u32(..300) };
        Self { key, kind, delay: rng.u32(..2_000), size }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&End) -> bool| self.transactions().filter(|one| wanted(&one.end)).count();
        let events: usize = self.transactions().flat_map(|one| &one.blocks).map(|block| block.events.len()).sum();
        write!(
            f,
            "{} transactions with {events} events; {} rolled back, {} left open, {} left at the commit, {} prepared",
            self.transactions().count(),
            count(|end| matches!(end, End::Rollback)),
            count(|end| matches!(end, End::Disconnect)),
            count(|end| matches!(end, End::Vanish(_))),
            count(|end| matches!(end, End::Prepared { .. })),
        )
    }
}
