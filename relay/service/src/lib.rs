//! What moves events: streams committed ones from PostgreSQL to RabbitMQ and writes each verdict back.
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
//! | [`outbox_core`] | decides: what leaves, what is written back, what is acknowledged. A crate without I/O |
//! | `session` | the loop that tells the core what happens and does what it says |
//! | [`store`] | the table: its rows as events, and the service's SQL statements |
//! | [`sink`] | brokers |
//! | [`amqp_publisher`] | RabbitMQ, with a certain answer for each message. A crate of its own |
//! | [`pg_replication`] | the stream of the write-ahead log, and how a server is reached. A crate of its own |
//! | [`run`], `connecting`, `startup` | one session after the other: connect, check, take over, try again |
//! | [`config`] | what the service is to do |
//! | [`observe`] | what the service shows of itself: state, counts, whether it delivers |
//! | `traces` | spans of sampled events, to a collector, on a thread of their own; with the feature `otel` |
//! | [`collector`] | that collector, as settings name it |
//! | [`database`] | sessions for SQL; what a server must offer, and what it refuses |
//! | [`address`], [`text_file`] | a server's address with its login, which may stand in a file |
//! | [`contact`] | a server that the relay is connected to |
//! | [`error`] | why the service has ended |
//! | [`repeats`] | when to say again what has been said before |
//! | [`numbers`] | numbers, sizes and lengths of time for people |
//! | [`redact`] | what may be shown of a value that somebody has set: no secret |

pub mod address;
pub mod collector;
pub mod config;
mod connecting;
pub mod contact;
pub mod database;
pub mod error;
pub mod numbers;
pub mod observe;
pub mod redact;
pub mod repeats;
mod run;
mod session;
pub mod sink;
mod startup;
pub mod store;
pub mod text_file;
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
