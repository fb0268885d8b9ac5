//! The console: commands, checks, metrics, a dashboard, and retention.
//!
//! The console sees the session only through the picture that [`outbox_service::observe`] publishes, and the database
//! through connections of its own. The service does not know the console.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | the commands beside `run` |
//! | `check` | the largest command: inspects everything that a relay needs |
//! | [`admin`] | the edge: HTTP and systemd, on a thread of their own |
//! | `dashboard` | a page for people, served at that edge |
//! | [`retention`] | deletes old finished events, on a thread of its own |
//! | `queries` | queries of the database, each once: its statement and its row |
//! | [`sink`] | what `check` and `tail` ask of a kind of broker |
//! | [`terminal`] | standard output, questions, progress, signals |
//! | [`format`] | tables, JSON, ages, times, and escaping of foreign text. Pure |

pub mod admin;
mod check;
pub mod commands;
mod config;
mod dashboard;
mod findings;
pub mod format;
mod queries;
pub mod retention;
pub mod sink;
pub mod terminal;

pub use self::config::{Config, DashboardConfig};
