//! Writes into `outbox.events` past the executor: the rows of `emit()`, and the verdict `SENT` of `settle()`.
//!
//! A statement of one row spends most of its time getting ready. This folder keeps from call to call what a statement
//! makes ready each time, and hands the row to the functions of PostgreSQL to which the executor hands it.
//! docs/direct-writes.md goes through the executor's work step by step, and says why each step may be left out.
//!
//! | file | what |
//! |---|---|
//! | [`switch`] | the setting `outbox.direct_writes` |
//! | [`insert`](mod@insert) | inserts one event |
//! | [`settle`] | writes `SENT` into the rows of events |
//! | [`update`] | a row's next version, into the table and its indexes |
//! | [`kept`] | what is kept from call to call, and when it is made anew |
//! | [`target`] | the table with its indexes and triggers, if nothing on it needs a statement |
//! | [`index_code`] | whose code an index runs |
//! | [`idle_triggers`] | which triggers have nothing to do for a verdict |
//! | [`default_value`] | the values of columns that `emit` does not write |
//! | [`raw`] | functions of PostgreSQL without a boundary around each |
//!
//! The folder is the cargo feature `direct-writes`. Without the feature, `no_executor.rs` stands in for it, and nothing
//! else of the extension changes.
//!
//! # Safety
//!
//! Besides the reasons of [`postgres`](crate::postgres), every `unsafe` block relies on these:
//! - What is kept lives in memory of its own, and is used while the table is open, locked, and unchanged since.
//! - An ERROR on the way marks what is kept as broken. The next call frees it, and makes it anew.

mod default_value;
mod idle_triggers;
mod index_code;
mod insert;
mod kept;
mod raw;
mod settle;
mod switch;
mod target;
mod update;

pub(crate) use insert::insert;
pub(crate) use settle::settle_sent;
pub(crate) use switch::define_setting;
