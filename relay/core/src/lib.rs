//! Decides what an outbox relay publishes, writes back and acknowledges.
//!
//! [`Core`] is a deterministic state machine. It takes in what has happened ([`Input`]) and says what is to be done
//! ([`Effect`]). Time and the seed of its hashes are arguments, and it does no I/O, so a simulator can drive the very
//! code that runs in production.
//!
//! Four folders build on each other. Each knows those before it, and none after it:
//!
//! ```text
//! interface/           parts/                  dispatch/                    machine/
//! inputs, effects ◀─── one invariant each ◀─── the events in memory, and ◀─── Core: a file for each input,
//! and their types      (recovery, progress)    which of them may leave        and for each kind of effect
//! ```
//!
//! An event's way through them, with the files that decide:
//!
//! ```text
//!   Input                                                                                         Effect
//!  Stream ────▶ machine/stream ──▶ parts/resync: publish, already read, or leave in the table?
//!                                     │ publish
//!                                     ▼
//!  Table ─────▶ machine/table ───▶ dispatch: keys, memory, retries ──────▶ machine/publish ─────▶ Publish
//!  (a page)                           ▲    │ verdicts
//!  Sink ──────▶ machine/sink ─────────┘    ▼
//!  (outcomes)                      parts/settling: batches ──────────────▶ machine/requests ────▶ Table
//!  Table ─────▶ machine/table ───────┐
//!  (written)                         ▼
//!                                  parts/progress: commits all settled ──▶ machine/status ──────▶ Acknowledge
//! ```
//!
//! | question | file |
//! |---|---|
//! | What can happen, and what can the core ask for? | `interface/input`, `interface/effect` |
//! | What comes next, and when does the core wake? | `machine/mod` |
//! | When is the table read, and what of the stream has it covered? | `parts/resync`, `interface/snapshot` |
//! | When are events left to the table, so that the slot moves? | `machine/parking`, `parts/congestion` |
//! | Which operation on the table is next? | `machine/requests`, `parts/operations` |
//! | Which event may leave: keys, memory, retries? | `dispatch/mod`, `dispatch/keys`, `dispatch/budget` |
//! | What does an outcome mean for its event? | `dispatch/outcomes` |
//! | What comes back from an ordered sink? | `dispatch/returning` |
//! | What is larger than the broker takes, if the sink knows its limit? | `dispatch/too_large` |
//! | From when on does a sink read what the broker has? | `parts/read_back`, `parts/floor` |
//! | Does a nack count? | `dispatch/availability`; a late one: `dispatch/outcomes` |
//! | What leaves while every destination is unavailable? | `dispatch/probing` |
//! | What if a queue is silent, or a message ends the connection? | `dispatch/silences`, `dispatch/suspects` |
//! | When are events looked for whose time has come? | `parts/deferred` |
//! | How are verdicts written, and what if a row cannot be? | `parts/settling` |
//! | Up to where may the WAL be acknowledged? | `machine/status`, `parts/progress`, `parts/not_yet_visible` |
//! | When is the slot over its limit, and dropped? | `parts/slot_watch`, `machine/slot` |
//! | How does a session end? | `parts/ending`, `machine/drain` |
//!
//! `faults` has the deliberate faults that the simulator must find, and `marks` the fingerprints by which it tells
//! states apart; without the feature `faults` both are empty. `samples` has settings for tests.

mod dispatch;
pub mod faults;
mod interface;
mod machine;
mod marks;
mod parts;
#[cfg(any(test, feature = "faults"))]
pub mod samples;

#[cfg(feature = "faults")]
pub use self::marks::{Kind, Marked, Marks};
pub use self::{dispatch::SIDE_CHANNELS, interface::*, machine::Core};
