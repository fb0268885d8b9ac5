//! Checks what the server must offer, and gives the operator a hint for everything that is missing.

use pg_replication::{ConnInfo, ReplError};
use tokio_postgres::{Client, error::SqlState};

use crate::{
    address::Address,
    config::Config,
    database::{
        compatibility::{Mismatch, mismatch},
        errors::{is, is_transient, no_replication_right},
        ownership::Ownership,
        platform::Platform,
        requirements::Server,
    },
    error::{Kind, RunError},
    legible::{role_argument, statement},
    store::{StoreError, sql},
};

/// Checks the server's version and settings.
pub(super) async fn server(client: &Client, config: &Config) -> Result<(), RunError> {
    let database = &config.database_url;
    let server = Server::of(client).await?;
    if let Some(unfit) = server.unfit(database, config.failover_slot) {
        return Err(unfit.into());
    }
    if !server.streams() {
        return Err(RunError::new(Kind::WalLevel, format!("wal_level is {}", server.wal_level))
            .hint(Platform::of(client).await.raise_wal_level()));
    }
    Ok(())
}

/// Checks the extension's owner and version, and that this role may run its functions.
pub(super) async fn extension(client: &Client, database: &Address<ConnInfo>) -> Result<(), RunError> {
    let not_installed = || {
        let what = format!("the extension outbox is not installed in this database ({database})");
        RunError::new(Kind::ExtensionMissing, what).hint("CREATE EXTENSION outbox, in the database that DATABASE_URL names; if it was dropped, its events are gone with it")
    };
    match Ownership::of(client).await? {
        Ownership::Nothing => return Err(not_installed()),
        ownership => ownership.untrusted().map_or(Ok(()), |untrusted| Err(RunError::from(untrusted)))?,
    }
    let version: String = match client.query_one(sql::VERSION, &[]).await {
        Ok(row) => row.try_get(0)?,
        Err(error) if is(&error, &[SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_FUNCTION]) => {
            return Err(not_installed());
        }
        Err(error) if is(&error, &[SqlState::INSUFFICIENT_PRIVILEGE]) => {
            // The right to use the schema is missing, which everybody has unless somebody revoked it.
            return Err(not_granted(database).source(error));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(Mismatch { what, hint, schema_is_earlier }) = mismatch(&version) {
        return Err(RunError::new(Kind::ExtensionVersion, what).hint(hint).transient_if(schema_is_earlier));
    }
    if !client.query_one(sql::MAY_CALL, &[&sql::RELAYING]).await?.try_get::<_, bool>(0)? {
        return Err(not_granted(database));
    }
    let missing = client.query(sql::MISSING_BEYOND_GRANTS, &[]).await?;
    let missing: Vec<&str> = missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the role {:?} lacks a right that PostgreSQL gives everybody, and that somebody has revoked",
        database.user()
    );
    Err(RunError::new(Kind::NotPermitted, what).hint(format!("as a superuser: {}", statement(&missing.join("; ")))))
}

fn not_granted(database: &Address<ConnInfo>) -> RunError {
    let role = database.user();
    RunError::new(Kind::NotPermitted, format!("the role {role:?} may not run the relay's functions"))
        .hint(format!("as the extension's owner: SELECT outbox.grant_relay({})", role_argument(&role)))
}

/// A failure of the replication connection, in the operator's terms.
pub(super) async fn stream_error(config: &Config, client: &Client, error: ReplError) -> RunError {
    if error.plugin_refused() {
        return plugin_refused(Platform::of(client).await).source(error);
    }
    if error.sqlstate() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        // A server may accept the connection, and check the right only at the first command.
        no_replication_right(&config.database_url, Platform::of(client).await).source(error)
    } else if error.slot_invalidated() {
        invalidated(config).source(error)
    } else if error.connection_lost() {
        RunError::new(Kind::Database, "lost the database while starting the stream").transient_if(true).source(error)
    } else {
        RunError::new(Kind::Slot, format!("cannot stream from the slot {:?}", config.slot))
            .hint("check max_replication_slots and max_wal_senders, and the server's log")
            .transient_if(error.is_transient())
            .source(error)
    }
}

/// The error about a server whose list of permitted output plugins lacks pgoutput.
fn plugin_refused(platform: Platform) -> RunError {
    RunError::new(Kind::Slot, "the server does not let pgoutput read its WAL: output_plugin_libraries does not name it")
        .hint(platform.allow_pgoutput())
}

pub(super) fn invalidated(config: &Config) -> RunError {
    RunError::new(Kind::Slot, format!("the server has invalidated the slot {:?}", config.slot))
        .hint("drop it and run `outbox-relay init`: events that are PENDING are read from the table, none is lost")
}

/// A statement that failed during the preparation of a session.
pub(super) fn store_error(error: StoreError, what: &str) -> RunError {
    let is_transient = matches!(&error, StoreError::Sql(error) if is_transient(error));
    RunError::new(Kind::Database, what).transient_if(is_transient).source(error)
}
