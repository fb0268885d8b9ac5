//! What the server must offer, and what to do where it does not.

use std::error::Error;

use pg_replication::{ConnInfo, ConnectError, ReplError, ServerError};
use tokio_postgres::{Client, error::SqlState};

use crate::{
    compatibility::{Mismatch, mismatch},
    config::{Address, Config},
    error::{Kind, RunError},
    outbox::{StoreError, sql},
    ownership::Ownership,
    platform::Platform,
};

/// The oldest server with logical messages and binary values in pgoutput
/// (<https://www.postgresql.org/docs/14/release-14.html>).
pub(crate) const OLDEST_SERVER: i32 = 140_000;

/// The first server that raises `wal_level` by itself when the first logical slot is made
/// (<https://www.postgresql.org/docs/devel/logicaldecoding-explanation.html>).
const RAISES_WAL_LEVEL: i32 = 190_000;

/// The first server with slots that standbys copy (<https://www.postgresql.org/docs/17/release-17.html>).
const COPIES_SLOTS: i32 = 170_000;

/// What stands in the way of the setting `failover_slot` on a server of this version, and what to do.
pub(crate) fn failover_slot_refused(config: &Config, version: i32) -> Option<(String, &'static str)> {
    (config.failover_slot && version < COPIES_SLOTS).then(|| {
        let what =
            format!("failover_slot needs PostgreSQL 17 or newer, and this server is PostgreSQL {}", version / 10_000);
        (what, "leave it out: after a failover the relay creates its slot again, and no event is lost")
    })
}

/// Checks version and settings.
pub(super) async fn server(client: &Client, config: &Config) -> Result<(), RunError> {
    let database = &config.database_url;
    let row = client.query_one(sql::SERVER, &[]).await?;
    let (version, wal_level): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
    let (standby, read_only): (bool, bool) = (row.try_get(2)?, row.try_get(3)?);
    if version < OLDEST_SERVER {
        let what = format!("the server is PostgreSQL {}", version / 10_000);
        return Err(RunError::new(Kind::Database, what).hint("the relay needs PostgreSQL 14 or newer"));
    }
    if let Some((what, hint)) = failover_slot_refused(config, version) {
        return Err(RunError::new(Kind::Slot, what).hint(hint));
    }
    if standby {
        return Err(RunError::new(Kind::Database, format!("{database} is a standby"))
            .hint("connect to the primary")
            .transient_if(true)); // it may be promoted
    }
    if read_only {
        return Err(RunError::new(Kind::Database, format!("{database} is read-only"))
            .hint("connect to the primary, and check default_transaction_read_only")
            .transient_if(true));
    }
    if !wal_level_suffices(wal_level, version) {
        return Err(RunError::new(Kind::WalLevel, format!("wal_level is {wal_level}"))
            .hint(Platform::of(client).await.raise_wal_level()));
    }
    Ok(())
}

/// Whether a server of this version streams events at this `wal_level`.
pub(crate) fn wal_level_suffices(wal_level: &str, version: i32) -> bool {
    wal_level == "logical" || (wal_level == "replica" && version >= RAISES_WAL_LEVEL)
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

/// A connection that could not be made, in the operator's terms.
pub(crate) fn connect_error(error: ConnectError, database: &Address<ConnInfo>) -> RunError {
    let state = error.sqlstate().map(|state| state.code().to_owned());
    let place = database.place("DATABASE_URL");
    let (kind, what, hint) = match state.as_deref() {
        Some("28P01" | "28000") => (
            Kind::Authentication,
            format!("{database} refused the login"),
            format!("check user and password in {place}, and that pg_hba.conf has a line for this user and database"),
        ),
        Some("3D000") => {
            (Kind::NoDatabase, format!("no such database: {database}"), format!("check the name in {place}"))
        }
        Some("42501") => (
            Kind::NotPermitted,
            format!("{database} does not permit the connection"),
            "as the database's owner: GRANT CONNECT ON DATABASE … TO the relay's role".to_owned(),
        ),
        Some("53300" | "53400") => {
            let hint = "raise max_connections or max_wal_senders".to_owned();
            (Kind::Database, format!("{database} has no connection left"), hint)
        }
        _ => (
            Kind::Database,
            format!("cannot connect to {database}"),
            format!("check host, port and TLS settings in {place}, and that the server runs"),
        ),
    };
    RunError::new(kind, what).hint(hint).transient_if(error.is_transient()).source(error)
}

/// As [`connect_error`], for a replication connection. Whether a role may replicate is for the server to say: on Amazon RDS
/// and Aurora that comes from membership in a role, and its own attribute stays off.
pub(crate) fn replication_connect_error(
    error: ConnectError,
    database: &Address<ConnInfo>,
    platform: Platform,
) -> RunError {
    if error.sqlstate() == Some(&SqlState::PROTOCOL_VIOLATION) {
        // A pooler's words for a startup packet with `replication`; PostgreSQL would not say that.
        return behind_a_pooler(format!("{database} passes no replication connection")).source(error);
    }
    if error.sqlstate() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        no_replication_right(database, platform).source(error)
    } else {
        connect_error(error, database)
    }
}

fn no_replication_right(database: &Address<ConnInfo>, platform: Platform) -> RunError {
    let role = database.user();
    RunError::new(Kind::NotPermitted, format!("the role {role:?} has no REPLICATION right"))
        .hint(platform.allow_replication(&role))
}

/// The relay's sessions are not its own.
fn behind_a_pooler(what: impl Into<String>) -> RunError {
    RunError::new(Kind::Database, what).hint(
        "it looks like a connection pooler: give the relay the server's own address in DATABASE_URL; applications may go on using the pooler",
    )
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

/// A statement that failed, in the operator's terms.
impl From<tokio_postgres::Error> for RunError {
    fn from(error: tokio_postgres::Error) -> Self {
        if is(&error, &[SqlState::INSUFFICIENT_PRIVILEGE]) {
            // Whether the role has what outbox.grant_relay() grants was looked at before. The server says what else is missing, and the
            // outbox's own functions say what to do about it.
            let says_what_to_do = error.as_db_error().is_some_and(|refusal| refusal.hint().is_some());
            let refused =
                Self::new(Kind::NotPermitted, "the database does not permit what the relay needs").source(error);
            if says_what_to_do { refused } else { refused.hint("grant the relay's role what the server names") }
        } else if is(&error, &[SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT]) {
            behind_a_pooler("the database has lost a statement that was prepared, or has one of somebody else's")
                .source(error)
        } else {
            Self::new(Kind::Database, "a statement failed")
                .hint("see the server's log")
                .transient_if(is_transient(&error))
                .source(error)
        }
    }
}

/// A statement of the session to come that failed.
pub(super) fn store_error(error: StoreError, what: &str) -> RunError {
    let is_transient = matches!(&error, StoreError::Sql(error) if is_transient(error));
    RunError::new(Kind::Database, what).transient_if(is_transient).source(error)
}

/// Whether the statement may succeed in another session although nobody changes anything. What is not the server's word is a
/// connection that broke.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .map_or_else(|| error.is_closed() || is_io(error), |error| ServerError::from(error).is_transient())
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

fn is(error: &tokio_postgres::Error, states: &[SqlState]) -> bool {
    error.code().is_some_and(|state| states.contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_level_replica_is_enough_where_the_server_raises_it() {
        for (wal_level, version, enough) in [
            ("logical", 140_000, true),
            ("replica", 180_006, false),
            ("replica", 190_000, true),
            ("minimal", 190_000, false),
        ] {
            assert_eq!(wal_level_suffices(wal_level, version), enough, "{wal_level} on {version}");
        }
    }
}
