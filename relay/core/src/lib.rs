//! Decides what an outbox relay publishes, writes back and acknowledges.
//!
//! [`Core`] is a deterministic state machine: it is told what has happened ([`Input`]) and says what is to be done ([`Effect`]). Time and
//! the seed of its hashes are arguments. It does no I/O, so that a simulator can drive the very code that runs in production.
//!
//! ```text
//!            Input                                                            Effect
//!  Streamed ──────▶ stream ─▶ resync: covered, left or taken?
//!                               │ taken
//!                               ▼
//!  Finished ──────▶ table ──▶ dispatch: keys, retries, memory ─────────────▶ Publish
//!                               ▲    │ verdicts
//!  Notice ────────▶ broker ─────┘    ▼
//!                            settling: batches ─▶ turns ───────────────────▶ Table
//!                               │ written
//!                               ▼
//!                            progress: the settled prefix of commits ──────▶ Acknowledge
//! ```
//!
//! | module | what it decides |
//! |---|---|
//! | `core` | what comes next, and when to be woken |
//! | `stream` | what becomes of a streamed row |
//! | `broker` | what follows from an answer, and from an outage |
//! | `parking` | when events are left to the table, so that the slot moves |
//! | `table`, `turns` | what follows from a read or a write, and which operation is next |
//! | `dispatch` | which event may leave: keys, holders, retries, the memory budget, silent and refusing queues |
//! | `resync`, `snapshot` | when to read the table, and which part of the stream that covers |
//! | `awaited` | which commits may not be acknowledged, since nobody can see them yet |
//! | `deferred` | when to look for events with a time of their own |
//! | `settling` | batches of verdicts, and rows that cannot be written yet |
//! | `progress` | up to which position everything that was read is settled |
//! | `status` | which position the server is told, and when |
//!
//! `figures` counts what happens, for metrics.

mod dispatch;
pub mod faults;
mod interface;
mod machine;
mod marks;
mod parts;
#[cfg(test)]
mod tests;

#[cfg(feature = "faults")]
pub use self::marks::{Kind, Marked, Marks};
pub use self::{dispatch::SIDE_CHANNELS, interface::*, machine::Core};
