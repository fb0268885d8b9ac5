//! The outbox relay: streams committed events from PostgreSQL to RabbitMQ and writes each verdict back.
//!
//! ```text
//!  PostgreSQL                          relay                                   RabbitMQ
//!  ──────────                          ─────                                   ────────
//!  WAL ──────▶ postgres ─▶ row ─▶ ┌──────────┐ ─▶ publish ─ persistent, mandatory ─▶ exchange
//!  events ───▶ store (a pass) ──▶ │ dispatch │
//!  events ◀── store ◀─ settle ◀── └──────────┘ ◀─ publish ◀────── confirm, return, nack
//!  slot ◀──── progress
//! ```
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | [`postgres`] | sessions for SQL | yes |
//! | [`store`] | the SQL connection: scans and verdicts | yes |
//! | [`sink`] | what a broker needs to know of an event | yes |
//! | [`row`], [`event`] | a table row as an event | no |
//! | [`dispatch`] | ordering keys, holds, retries, memory budget | no |
//! | [`repeats`] | how often the log tells of what goes on and on | no |
//! | [`hash`] | a hasher for its maps | no |
//! | [`resync`], [`snapshot`] | when to read the table, and what of the stream that covers | no |
//! | [`deferred`] | when to look for events with `available_at` | no |
//! | [`settle`] | batches of verdicts, rows that are not visible yet | no |
//! | [`progress`] | which LSN may be acknowledged | no |
//! | [`session`] | the loop that joins them | yes |
//! | [`startup`], [`run()`] | connect, check, take over, try again | yes |

pub mod config;
pub mod deferred;
pub mod dispatch;
pub mod error;
pub mod event;
pub mod hash;
pub mod postgres;
pub mod progress;
pub mod repeats;
pub mod resync;
pub mod row;
mod run;
pub mod session;
pub mod settle;
pub mod sink;
pub mod snapshot;
pub mod startup;
pub mod store;

pub use pg_replication::lsn;

pub use self::{
    error::RunError,
    run::run,
    startup::{InitReport, init},
};
