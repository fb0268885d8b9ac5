//! The outbox relay: streams committed events from PostgreSQL to RabbitMQ and writes each verdict back.
//!
//! ```text
//!  PostgreSQL                              relay                                    RabbitMQ
//!  ──────────                              ─────                                    ────────
//!  WAL ─────▶ postgres ─▶ session::stream ─▶ ┌──────┐ ─▶ sink ─ persistent, mandatory ─▶ exchange
//!  events ──▶ outbox (a pass) ─────────────▶ │ core │
//!  events ◀── outbox (verdicts) ◀─────────── │      │ ◀─ sink ◀─────── confirm, return, nack
//!  slot ◀──── postgres ◀──────────────────── └──────┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`outbox_core`] | decides: what leaves, what is written back, what is acknowledged. A crate of its own, without I/O |
//! | [`session`] | the loop that tells the core what happens and does what it says |
//! | [`outbox`] | the table: its rows as events, and every SQL statement |
//! | [`sink`] | brokers |
//! | [`publish`] | AMQP publisher with a certain answer for each message |
//! | [`postgres`] | replication client and `pgoutput` decoder |
//! | [`config`] | settings |
//! | [`startup`], [`run()`] | connect, check, take over, try again |

pub mod config;
pub mod error;
pub mod event {
    pub use outbox_core::{Event, Text};
}
pub mod lsn;
pub mod outbox;
pub mod postgres;
pub mod publish;
mod repeats;
mod run;
pub mod session;
pub mod sink;
pub mod startup;

pub use self::{
    error::RunError,
    run::run,
    startup::{InitReport, init},
};
