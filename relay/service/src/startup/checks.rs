//! What the server must offer, and what to do where it does not.

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
    store::{StoreError, sql},
};

/// Checks version and settings.
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

/// Checks whose the extension is, its version, and that this role may run its functions.
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
            return Err(not_granted(database).source(error)); // the use of the schema, which is everybody's unless rights got lost
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
    Err(RunError::new(Kind::NotPermitted, what).hint(format!("as a superuser: {}", missing.join("; "))))
}

fn not_granted(database: &Address<ConnInfo>) -> RunError {
    let role = database.user();
    RunError::new(Kind::NotPermitted, format!("the role {role:?} may not run the relay's functions"))
        .hint(format!("as the extension's owner: SELECT outbox.grant_relay('{role}')"))
}

/// What a failure of the replication connection means for the operator.
pub(super) async fn stream_error(config: &Config, client: &Client, error: ReplError) -> RunError {
    if error.plugin_refused() {
        return plugin_refused(Platform::of(client).await).source(error);
    }
    if error.sqlstate() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        // A server may let the connection in, and ask for the right only at the first command.
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

/// The server has a list of the plugins that may read its WAL, and pgoutput is not on it.
fn plugin_refused(platform: Platform) -> RunError {
    RunError::new(Kind::Slot, "the server does not let pgoutput read its WAL: output_plugin_libraries does not name it")
        .hint(platform.allow_pgoutput())
}

pub(super) fn invalidated(config: &Config) -> RunError {
    RunError::new(Kind::Slot, format!("the server has invalidated the slot {:?}", config.slot))
        .hint("drop it and run `outbox-relay init`: events that are PENDING are read from the table, none is lost")
}

/// A statement of the session to come that failed.
pub(super) fn store_error(error: StoreError, what: &str) -> RunError {
    let is_transient = matches!(&error, StoreError::Sql(error) if is_transient(error));
    RunError::new(Kind::Database, what).transient_if(is_transient).source(error)
}
