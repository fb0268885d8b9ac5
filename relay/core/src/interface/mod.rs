//! What goes into the core, what comes out of it, and the types that both are made of.
//!
//! | file | what it has |
//! |---|---|
//! | `input`, `outcome` | what has happened: stream, table, sink, slot |
//! | `effect`, `verdict` | what is to be done |
//! | `config` | settings, and what a session starts with |
//! | `event`, `destination` | an event, its ordering key, and where it goes |
//! | `in_doubt` | what the table keeps of events whose verdicts it lacks |
//! | `snapshot`, `lsn` | which transactions a query sees; a position in the WAL |
//! | `abilities` | what a sink can do beyond publishing |
//! | `slot`, `absence` | how large the slot is; how long the broker has been absent |
//! | `report`, `figures` | what the session logs and counts |
//! | `hash` | hashes that are the same for the same seed |

mod abilities;
mod absence;
mod config;
mod destination;
mod effect;
mod event;
mod figures;
mod hash;
mod in_doubt;
mod input;
mod lsn;
mod outcome;
mod report;
mod slot;
mod snapshot;
mod verdict;

pub(crate) use self::hash::NameHash;
pub use self::{
    abilities::Abilities,
    absence::Absence,
    config::{Backoff, Config, Limits, Now, Ordering, Policy, Start},
    destination::Destination,
    effect::{Batch, Effect, End, Older, Request, Scan, ScanFrom},
    event::{Event, KeyHolder, KeyName, Text},
    figures::{BOUNDS_US, Conditions, Counts, Figures, Histogram, PassReason},
    hash::IdHash,
    in_doubt::{Doubts, InDoubt},
    input::{Due, Failure, Finished, Input, NotWritten, Notice, Page, Published, Remedy, Row, Sequence, Streamed},
    lsn::Lsn,
    outcome::Outcome,
    report::{Reason, Report},
    slot::{Pressure, SlotSize},
    snapshot::{InvalidSnapshot, Snapshot},
    verdict::{Status, Verdict},
};
