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
//! The same schema installs without the extension, by `sql/install.sql`: `sql/plain/` says in PL/pgSQL what is here in
//! Rust.

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

// The SQL files in the order in which they are loaded; sql/install.sql has the same, except those in sql/extension/.
extension_sql_file!("../../sql/extension/schema.sql", bootstrap);
extension_sql_file!("../../sql/requirements.sql", name = "requirements");
extension_sql_file!("../../sql/status.sql", name = "status", requires = ["requirements"]);
extension_sql_file!("../../sql/events.sql", name = "events", requires = ["status", uuid_v7::uuid_v7]);
extension_sql_file!("../../sql/indexes.sql", name = "indexes", requires = ["events"]);
extension_sql_file!("../../sql/admit_trigger.sql", name = "admit_trigger", requires = ["indexes", admit::admit]);
extension_sql_file!("../../sql/envelope_trigger.sql", name = "envelope_trigger", requires = ["admit_trigger"]);
extension_sql_file!("../../sql/ring.sql", name = "ring", requires = ["envelope_trigger"]);
extension_sql_file!("../../sql/status_trigger.sql", name = "status_trigger", requires = ["ring"]);
extension_sql_file!("../../sql/notify_trigger.sql", name = "notify_trigger", requires = ["status_trigger"]);
extension_sql_file!("../../sql/page.sql", name = "page", requires = ["notify_trigger"]);
extension_sql_file!("../../sql/flush.sql", name = "flush", requires = ["page"]);
extension_sql_file!("../../sql/pending.sql", name = "pending", requires = ["flush", event_bytes::event_bytes]);
extension_sql_file!("../../sql/owed.sql", name = "owed", requires = ["pending"]);
extension_sql_file!("../../sql/due.sql", name = "due", requires = ["owed"]);
extension_sql_file!("../../sql/holding.sql", name = "holding", requires = ["due"]);
extension_sql_file!("../../sql/settle.sql", name = "settle", requires = ["holding", settle_sent::settle_sent]);
extension_sql_file!("../../sql/publication.sql", name = "publication", requires = ["settle"]);
extension_sql_file!("../../sql/sequence.sql", name = "sequence", requires = ["publication"]);
extension_sql_file!("../../sql/audit.sql", name = "audit", requires = ["sequence"]);
extension_sql_file!("../../sql/replay.sql", name = "replay", requires = ["audit"]);
extension_sql_file!("../../sql/replay_many.sql", name = "replay_many", requires = ["replay"]);
extension_sql_file!("../../sql/release.sql", name = "release", requires = ["replay_many"]);
extension_sql_file!("../../sql/retention.sql", name = "retention", requires = ["release"]);
extension_sql_file!("../../sql/views.sql", name = "views", requires = ["retention"]);
extension_sql_file!("../../sql/count.sql", name = "count", requires = ["views"]);
extension_sql_file!("../../sql/health.sql", name = "health", requires = ["count"]);
extension_sql_file!("../../sql/failures.sql", name = "failures", requires = ["health"]);
extension_sql_file!("../../sql/limit_payloads.sql", name = "limit_payloads", requires = ["failures"]);
extension_sql_file!("../../sql/version.sql", name = "version", requires = ["limit_payloads"]);
extension_sql_file!(
    "../../sql/emit_text.sql",
    name = "emit_text",
    requires = ["version", emit::emit_json, emit::emit_jsonb, emit::emit_bytea]
);
extension_sql_file!("../../sql/rights.sql", name = "rights", requires = ["emit_text"]);
extension_sql_file!("../../sql/grant_emit.sql", name = "grant_emit", requires = ["rights"]);
extension_sql_file!("../../sql/grant_relay.sql", name = "grant_relay", requires = ["grant_emit"]);
extension_sql_file!("../../sql/grant_operate.sql", name = "grant_operate", requires = ["grant_relay"]);
extension_sql_file!("../../sql/grant_monitor.sql", name = "grant_monitor", requires = ["grant_operate"]);
extension_sql_file!("../../sql/grant_maintain.sql", name = "grant_maintain", requires = ["grant_monitor"]);
extension_sql_file!(
    "../../sql/extension/undumped_changes.sql",
    name = "undumped_changes",
    requires = ["grant_maintain"]
);
extension_sql_file!("../../sql/default_rights.sql", name = "default_rights", requires = ["undumped_changes"]);
extension_sql_file!("../../sql/privileges.sql", name = "privileges", requires = ["default_rights"]);

// pg_dump leaves out the rows of a table that belongs to an extension, unless the extension asks for them.
extension_sql!(
    r#"
SELECT pg_catalog.pg_extension_config_dump('outbox.events', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.events_seq_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit_id_seq', '');
"#,
    name = "dumped_rows",
    requires = ["privileges"],
    finalize
);
