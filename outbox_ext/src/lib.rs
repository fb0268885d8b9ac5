//! The PostgreSQL extension `outbox`: wiring.
//!
//! The data model and every rule about it is SQL, in `sql/`, where a DBA reads it. Rust has what must be quick or
//! cannot be said in SQL:
//!
//! | file | what |
//! |---|---|
//! | [`emit`] | `outbox.emit()`: a row into the table, past the cost of a statement |
//! | [`settle_sent`] | the verdict `SENT`, past the cost of a statement |
//! | [`admit`] | the INSERT trigger: checks and completes an event |
//! | [`refusal`] | what the trigger refuses, and with which SQLSTATE, message and hint |
//! | [`event_bytes`] | the size of an event, without a look at its body |
//! | [`headers`] | the size of JSON headers as an AMQP table |
//! | [`json`] | the tokens of a JSON text |
//! | [`uuid_v7`] | the ids |
//! | [`settings`] | `outbox.*` |
//! | [`postgres`] | all unsafe code: arguments, rows, insertion and update as PostgreSQL has them |
//!
//! The extension's script is made from `sql/outbox.sql`. `sql/native/` declares these functions there; `sql/native/plain/`
//! has them in PL/pgSQL, for an installation without the extension.

mod admit;
mod emit;
mod event_bytes;
mod headers;
mod json;
mod postgres;
mod refusal;
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
}

include!(concat!(env!("OUT_DIR"), "/schema.rs"));
