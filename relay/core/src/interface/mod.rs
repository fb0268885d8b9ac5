//! What goes into the core and what comes out of it.

mod absence;
mod config;
mod effect;
mod event;
mod figures;
mod hash;
mod input;
mod lsn;
mod outcome;
mod report;
mod slot;
mod snapshot;
mod verdict;

pub(crate) use self::hash::NameHash;
pub use self::{
    absence::Absence,
    config::{Backoff, Config, Limits, Now, Ordering, Policy, Start},
    effect::{Batch, Effect, End, Request, Scan, ScanFrom},
    event::{Event, KeyHolder, KeyName, Text},
    figures::{BOUNDS_US, Conditions, Counts, Figures, Histogram, PassReason},
    hash::IdHash,
    input::{Due, Failure, Finished, Input, NotWritten, Notice, Page, Published, Remedy, Row, Sequence, Streamed},
    lsn::Lsn,
    outcome::Outcome,
    report::{Reason, Report},
    slot::{Pressure, SlotSize},
    snapshot::{InvalidSnapshot, Snapshot},
    verdict::{Status, Verdict},
};
