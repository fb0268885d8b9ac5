//! The outbox relay: streams committed events from PostgreSQL to RabbitMQ and writes each verdict back.
//!
//! ```text
//!  PostgreSQL                              relay                                    RabbitMQ
//!  ──────────                              ─────                                    ────────
//!  WAL ─────▶ pg_replication ─▶ session ───▶ ┌──────┐ ─▶ sink ─ persistent, mandatory ─▶ exchange
//!  events ──▶ outbox (a pass) ─────────────▶ │ core │
//!  events ◀── outbox (verdicts) ◀─────────── │      │ ◀─ sink ◀─────── confirm, return, nack
//!  slot ◀──── pg_replication ◀────────────── └──────┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`outbox_core`] | decides: what leaves, what is written back, what is acknowledged. A crate of its own, without I/O |
//! | [`session`] | the loop that tells the core what happens and does what it says |
//! | [`outbox`] | the table: its rows as events, and the service's SQL statements |
//! | [`sink`] | brokers |
//! | [`amqp_publisher`] | RabbitMQ, with a certain answer for each message. A crate of its own |
//! | [`pg_replication`] | the stream of the write-ahead log, and how a server is reached. A crate of its own |
//! | [`postgres`] | sessions for SQL |
//! | `compatibility` | whether the schema and this relay work together |
//! | `platform` | whose PostgreSQL it is: the words of hints |
//! | [`config`] | settings |
//! | [`contact`] | a server that the relay is connected to |
//! | `numbers` | numbers, sizes and lengths of time for people |
//! | [`redact`] | what may be shown of a value that somebody has set: no secret |
//! | [`unseen`] | what a terminal must not be told, in text that others have written |
//! | [`observe`] | what the relay shows of itself: state, counts, whether it delivers |
//! | [`admin`] | the edge for those who look: HTTP and systemd, on a thread of their own |
//! | `maintenance` | retention: deletes what is old, on a thread of its own |
//! | `dashboard` | a page for people, served at that edge |
//! | `traces` | spans of sampled events, to an OpenTelemetry collector, on a thread of their own; with the feature `otel` |
//! | [`service`] | one session after the other: connect, check, take over, try again |
//! | [`command`] | the other commands: look, check, replay, purge |

pub mod admin;
pub mod command;
mod compatibility;
pub mod config;
pub mod contact;
mod dashboard;
pub mod error;
mod flow;
mod maintenance;
mod numbers;
pub mod observe;
pub mod outbox;
mod ownership;
mod platform;
pub mod postgres;
pub mod redact;
mod repeats;
pub mod service;
pub mod session;
pub mod sink;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "no_traces.rs"]
mod traces;
pub mod unseen;

pub use self::{
    error::RunError,
    service::{InitReport, init, run},
};
