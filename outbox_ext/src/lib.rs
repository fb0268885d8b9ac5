//! The PostgreSQL extension `outbox`: wiring.
//!
//! The data model and its rules are SQL, in `sql/`, where a DBA reads them. Rust has what must be quick or cannot be
//! said in SQL, in three rooms. The files here are the extension's own logic, in safe code; [`postgres`] has
//! PostgreSQL's values, plans, settings and errors behind safe types; [`executor`] writes without a statement.
//!
//! | file | what |
//! |---|---|
//! | [`emit`] | `outbox.emit()`: a row into the table, past the cost of a statement |
//! | [`settle_sent`] | the verdict `SENT`, past the cost of a statement |
//! | [`admit`] | the INSERT trigger: checks and completes an event |
//! | [`emit_error`] | the errors of an event, each with its SQLSTATE, message and hint |
//! | [`limits`] | the limits of an event |
//! | [`headers`], [`reserved`] | checks of JSON headers: their size as an AMQP table, and names that RabbitMQ reads |
//! | [`json`] | the tokens of a JSON text |
//! | [`event_bytes`] | the size of an event, without a look at its body |
//! | [`uuid_v7`] | the ids |
//! | [`settings`] | `outbox.*` |
//!
//! The extension's script is made from `sql/outbox.sql`. `sql/native/` declares these functions there;
//! `sql/native/plain/` has them in PL/pgSQL, for an installation without the extension.

mod admit;
mod emit;
mod emit_error;
mod event_bytes;
#[cfg(feature = "direct-writes")]
mod executor;
#[cfg(not(feature = "direct-writes"))]
#[path = "no_executor.rs"]
mod executor;
mod headers;
mod json;
mod limits;
mod postgres;
mod reserved;
mod settings;
mod settle_sent;
mod uuid_v7;

use pgrx::prelude::*;

pgrx::pg_module_magic!(name, version);

/// Runs when a backend loads the library: at its first call of one of the functions.
#[allow(non_snake_case)]
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    postgres::take_no_backtraces();
    settings::define();
    executor::define_setting();
    postgres::reserve_prefix(c"outbox");
}

include!(concat!(env!("OUT_DIR"), "/schema.rs"));
