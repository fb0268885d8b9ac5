//! Relays: processes that start, take the slot, drive a [`Core`] as the service's session does, and end in all ways.
//!
//! | module | what it has |
//! |---|---|
//! | `process` | how a process starts, stops and dies |
//! | `turn` | carrying out what the core asks for |
//! | `stream`, `table`, `slot` | a session's dealings with the WAL, the table, the slot |
//! | `connection`, `log` | with the broker, and with one that keeps a log |
//! | `checks` | promises that need a look into a session |

mod checks;
mod connection;
mod log;
mod process;
mod slot;
mod stream;
mod table;
mod turn;

use std::collections::{BTreeSet, VecDeque};

use outbox_core::{Absence, Core, marked};

use self::stream::Message;
pub(crate) use self::table::Operation;
use crate::{database::Micros, world::World};

/// A relay's process.
#[derive(Clone)]
pub(crate) struct Relay {
    name: String,
    pub(crate) session: Option<Session>,
    /// The process is frozen until this time.
    pub(crate) frozen_until: Micros,
    /// Starts in a row that failed.
    failures: u32,
    /// Whether the stream cannot go on where it was.
    must_pass_over: bool,
    /// The highest number of unwritten verdicts and of messages on side channels, together, at the end of any turn.
    pub(crate) most_unwritten: usize,
}

/// A relay's session, from taking the slot to its end.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) core: Core,
    /// The number of the next entry of the WAL that is sent.
    next_entry: usize,
    /// Messages that the server has sent and the core has not read.
    messages: VecDeque<Message>,
    /// The number of the publication with which the table was last described; `None`: it was not.
    described: Option<u64>,
    /// Whether the stream brings nothing, since the publication may not be repaired.
    is_unpublished: bool,
    pub(crate) connection: Option<u64>,
    /// The sink's identity at a broker that keeps a log; `None`: the broker knows none.
    pub(crate) identity: Option<u64>,
    /// What the sink has found in the broker's log: events and numbers of replays.
    found: BTreeSet<(i64, u32)>,
    /// An event that an earlier session handed over before this time and did not settle cannot be found by any session.
    readable_since: Micros,
    /// Whether the last connection was lost in a way that a message may have caused, so that the next must be proven.
    proves: bool,
    absence: Absence,
    /// Attempts to connect since the broker last answered.
    connects: u32,
    /// The number of the latest turn. A wake that an earlier turn has scheduled is void.
    turn: u64,
    /// Whether a read is on the agenda.
    is_reading: bool,
    is_draining: bool,
    /// The first entry that was read since the core went live; `None`: it is not live.
    live_from: Option<usize>,
    /// The first entry that the slot had not confirmed when the session began.
    read_from: usize,
    /// The entry after the last commit that the core has read.
    read_to: usize,
    /// When the database last failed or showed a commit. Until then it may have kept the slot from moving.
    pub(crate) calm_since: Micros,
    /// Events that a scan brought. Their commits may have been left to the table before.
    from_table: BTreeSet<i64>,
    /// When the session last published, or had nothing to try.
    tried_at: Micros,
    /// Since when a queue that answers nothing has delayed events of other queues.
    delayed_since: Option<Micros>,
    slot: slot::Looks,
    /// When each event of the last second was published.
    left_at: VecDeque<Micros>,
}

marked!(Session { described, identity, found, absence, from_table } not {
    id, core, next_entry, messages, is_unpublished, connection, readable_since, proves, connects, turn, is_reading,
    is_draining, live_from, read_from, read_to, calm_since, tried_at, delayed_since, slot, left_at
});

impl Relay {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            name: format!("relay {}", number + 1),
            session: None,
            frozen_until: 0,
            failures: 0,
            must_pass_over: false,
            most_unwritten: 0,
        }
    }
}

impl Session {
    fn new(id: u64, core: Core, next_entry: usize, now: Micros, absence: Absence) -> Self {
        Self {
            id,
            core,
            next_entry,
            messages: VecDeque::new(),
            described: None,
            is_unpublished: false,
            connection: None,
            identity: None,
            found: BTreeSet::new(),
            readable_since: 0,
            proves: false,
            absence,
            connects: 0,
            turn: 0,
            is_reading: false,
            is_draining: false,
            live_from: None,
            read_from: next_entry,
            read_to: next_entry,
            calm_since: now,
            from_table: BTreeSet::new(),
            tried_at: 0,
            delayed_since: None,
            slot: slot::Looks::default(),
            left_at: VecDeque::new(),
        }
    }
}

impl World {
    /// The relay's session, if it still has this number.
    fn session(&mut self, relay: usize, session: u64) -> Option<&mut Session> {
        self.relays.get_mut(relay)?.session.as_mut().filter(|found| found.id == session)
    }

    fn log_relay(&mut self, relay: usize, what: impl FnOnce() -> String) {
        let name = self.relays[relay].name.clone();
        self.log(&name, what);
    }
}
