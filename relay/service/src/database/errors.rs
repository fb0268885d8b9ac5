//! Errors of the database, in the operator's terms.

use std::error::Error;

use pg_replication::{ConnInfo, ConnectError, ServerError};
use tokio_postgres::error::SqlState;

use super::platform::Platform;
use crate::{
    address::Address,
    error::{Kind, RunError},
};

/// A failed connection, in the operator's terms.
pub fn connect_error(error: ConnectError, database: &Address<ConnInfo>) -> RunError {
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
            "as the database's owner: GRANT CONNECT ON DATABASE … TO the relay's role; if the server names another right: \
             what needs it is a setting of the role, of the database or in options=, or a login trigger"
                .to_owned(),
        ),
        Some("53300" | "53400") => {
            let hint = "raise what the server names: max_connections, max_wal_senders, or a CONNECTION LIMIT".to_owned();
            (Kind::Database, format!("{database} has no connection left"), hint)
        }
        Some(_) if !error.is_transient() => (
            Kind::Database,
            format!("{database} does not begin the session"),
            "the server says why; it may be a setting of the role, of the database or in options=, or a login trigger"
                .to_owned(),
        ),
        _ => (
            Kind::Database,
            format!("cannot connect to {database}"),
            format!("check host, port and TLS settings in {place}, and that the server runs"),
        ),
    };
    RunError::new(kind, what).hint(hint).transient_if(error.is_transient()).source(error)
}

/// A failed replication connection, in the operator's terms. Only the server knows whether a role may replicate: on
/// Amazon RDS and Aurora the right comes from membership in a role, and the role's own attribute stays off.
pub fn replication_connect_error(error: ConnectError, database: &Address<ConnInfo>, platform: Platform) -> RunError {
    if error.sqlstate() == Some(&SqlState::PROTOCOL_VIOLATION) {
        // Poolers answer a startup packet with `replication` this way; PostgreSQL never does.
        return behind_a_pooler(format!("{database} passes no replication connection")).source(error);
    }
    if error.sqlstate() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        no_replication_right(database, platform).source(error)
    } else {
        connect_error(error, database)
    }
}

pub(crate) fn no_replication_right(database: &Address<ConnInfo>, platform: Platform) -> RunError {
    let role = database.user();
    RunError::new(Kind::NotPermitted, format!("the role {role:?} has no REPLICATION right"))
        .hint(platform.allow_replication(&role))
}

/// The error about a connection pooler between the relay and the server.
fn behind_a_pooler(what: impl Into<String>) -> RunError {
    RunError::new(Kind::Database, what).hint(
        "it looks like a connection pooler: give the relay the server's own address in DATABASE_URL; applications may go on using the pooler",
    )
}

/// A statement that failed, in the operator's terms.
impl From<tokio_postgres::Error> for RunError {
    fn from(error: tokio_postgres::Error) -> Self {
        if is(&error, &[SqlState::INSUFFICIENT_PRIVILEGE]) {
            // The rights that outbox.grant_relay() grants were checked before, so another right is missing. The server
            // names it, and errors of the outbox's own functions already have a hint.
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

/// Whether the statement may succeed in another session although nobody changes anything. An error without an answer of
/// the server is a broken connection.
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .map_or_else(|| error.is_closed() || is_io(error), |error| ServerError::from(error).is_transient())
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether the server has answered with one of these states.
pub(crate) fn is(error: &tokio_postgres::Error, states: &[SqlState]) -> bool {
    error.code().is_some_and(|state| states.contains(state))
}
