//! The relay's service: streams committed events from PostgreSQL to a broker, and writes each verdict back.
//!
//! ```text
//!  PostgreSQL                             service                                   RabbitMQ
//!  ──────────                             ───────                                   ────────
//!  WAL ─────▶ pg_replication ─▶ session ───▶ ┌──────┐ ─▶ sink ─ persistent, mandatory ─▶ exchange
//!  events ──▶ store (a pass) ──────────────▶ │ core │
//!  events ◀── store (verdicts) ◀──────────── │      │ ◀─ sink ◀─────── confirm, return, nack
//!  slot ◀──── pg_replication ◀────────────── └──────┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`outbox_core`] | decides what is published, written back and acknowledged; a crate without I/O |
//! | `session` | the loop that reports every input to the core and carries out the core's effects |
//! | [`store`] | the table: its rows as events, and the service's SQL statements |
//! | [`sink`] | brokers |
//! | [`amqp_publisher`] | RabbitMQ, with a certain answer for each message; a crate of its own |
//! | [`pg_replication`] | the stream of the write-ahead log, and how a server is reached; a crate of its own |
//! | [`run`], `connecting`, `startup` | one session after the other: connect, check, take over, try again |
//! | [`config`] | the service's settings |
//! | [`observe`] | the relay's state and counts, and whether it delivers, for metrics and health checks |
//! | `traces` | spans of sampled events, sent to a collector by a thread of their own; with the feature `otel` |
//! | [`collector`] | the settings of that collector |
//! | [`database`] | sessions for SQL; what a server must offer, and what it refuses |
//! | [`address`], [`text_file`] | a server's address with its login, given as a setting or in a file |
//! | [`peer`] | a server that the relay is connected to |
//! | [`error`] | the errors that end the service, with their exit codes |
//! | [`repeats`] | when a repeated condition is logged again |
//! | [`numbers`] | numbers and sizes for people |
//! | [`time`] | lengths of time and points in time, as people write and read them |
//! | [`legible`] | foreign text as people read it, and statements that they copy |
//! | [`redact`] | hides values of settings that may contain a secret |

pub mod address;
pub mod collector;
pub mod config;
mod connecting;
pub mod database;
pub mod error;
pub mod legible;
pub mod numbers;
pub mod observe;
pub mod peer;
pub mod redact;
pub mod repeats;
mod run;
mod session;
pub mod sink;
mod startup;
pub mod store;
pub mod text_file;
pub mod time;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "no_traces.rs"]
mod traces;

pub use self::{
    config::Config,
    error::RunError,
    run::run,
    startup::{InitReport, SlotState, init},
};
