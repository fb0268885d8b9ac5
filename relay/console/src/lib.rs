//! What people and machines ask of an outbox: commands, checks, metrics, a dashboard; and the rounds of retention.
//!
//! The console sees the session only through the picture that [`outbox_service::observe`] publishes, and the database
//! through connections of its own. The service does not know the console.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | what the program can be told to do, beside relaying |
//! | `check` | the largest of the commands: looks at everything that a relay needs |
//! | [`admin`] | the edge for those who look: HTTP and systemd, on a thread of their own |
//! | `dashboard` | a page for people, served at that edge |
//! | [`retention`] | deletes what is old, on a thread of its own |
//! | `queries` | what is asked of the database, each question once: its statement and its row |
//! | [`terminal`] | standard output, questions, progress, signals |
//! | [`format`] | tables, JSON, ages, times, and what a terminal must not be told. Pure |

pub mod admin;
mod check;
pub mod commands;
mod config;
mod dashboard;
pub mod format;
mod queries;
pub mod retention;
pub mod terminal;

pub use self::config::{Config, DashboardConfig};
