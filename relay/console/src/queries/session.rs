//! A command's session with the database. It connects as the relay does, with limits that protect the database's other
//! users.

use std::{fmt::Display, time::Duration};

use outbox_service::{
    Config,
    database::{
        compatibility::{Mismatch, mismatch},
        errors::connect_error,
        ownership::Ownership,
        postgres,
    },
    error::{Kind, RunError},
    legible::role_argument,
    store::sql::{MAY_CALL, VERSION},
};
use pg_replication::Peer;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_postgres::{Client, Error, error::SqlState};

use crate::format::exact;

/// SQLSTATE class of invalid values, such as a malformed pattern. Every value comes from the caller.
const DATA_EXCEPTION: &str = "22";

/// Longest `statement_timeout` that PostgreSQL takes, in milliseconds: 24 days.
const MOST_MILLIS: u128 = i32::MAX as u128;

/// Shortest limit: `statement_timeout` counts milliseconds, and 0 means no limit.
const LEAST_LIMIT: Duration = Duration::from_millis(1);

/// Time beyond a session's limit in which the server's error for a statement that it has ended arrives.
const SLACK: Duration = Duration::from_secs(2);

/// The time `$1` seconds ago, as text.
const TIME_AGO: &str = "SELECT to_char(now() - $1 * interval '1 second', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";

/// Returns the settings of a command's session: times are UTC, a statement ends after `limit`, and it waits for locks
/// no longer than a person would.
fn settings(limit: Duration) -> String {
    format!(
        "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET lock_timeout = '5s'; {}; \
         SET default_transaction_read_only = off; SET jit = off",
        end_after(limit)
    )
}

/// Returns the setting that ends each statement after `limit`.
fn end_after(limit: Duration) -> String {
    format!("SET statement_timeout = {}", limit.as_millis().min(MOST_MILLIS))
}

/// The least grant that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// To read events, without headers and payloads.
    Monitor,
    /// To read and change events.
    Operate,
}

impl Grant {
    /// Returns the function that gives the grant.
    fn by(self) -> &'static str {
        match self {
            Self::Monitor => "grant_monitor",
            Self::Operate => "grant_operate",
        }
    }

    /// Returns a function that a role with the grant may call.
    fn allows(self) -> &'static str {
        match self {
            Self::Monitor => "failures",
            Self::Operate => "replay_many",
        }
    }
}

/// A session, and the task that drives it.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The host that has accepted the connection, of those in the setting.
    pub(crate) peer: Peer,
    _driver: JoinSet<Result<(), Error>>,
    role: String,
    /// Version of the schema, if there is one.
    version: Option<String>,
    needs: Grant,
    /// Whether the role has the grant that the command needs.
    is_granted: bool,
    limit: Duration,
}

impl Session {
    /// Connects within `limit`, which also ends each statement that takes longer. Fails with a hint if the role lacks
    /// the grant that the command `needs`.
    pub(crate) async fn open(config: &Config, command: &str, needs: Grant, limit: Duration) -> Result<Self, RunError> {
        let mut session = Self::connect(config, command, needs, limit).await?;
        let ownership = Ownership::of(&session.client).await.map_err(|error| session.failed(error))?;
        if let Some(untrusted) = ownership.untrusted() {
            return Err(untrusted.into());
        }
        if !matches!(ownership, Ownership::Nothing) {
            session.version = session.client.query_one(VERSION, &[]).await.and_then(|row| row.try_get(0)).ok();
        }
        Ok(session)
    }

    /// Connects without calling the schema's functions: their owner has not been checked yet.
    pub(crate) async fn connect(
        config: &Config,
        command: &str,
        needs: Grant,
        limit: Duration,
    ) -> Result<Self, RunError> {
        let database = &config.database_url;
        // The name differs from the relay's own, because whoever counts relays must not count this session.
        let name = format!("{} {command}", config.application_name);
        let server = database.now()?;
        let connected =
            timeout(limit, postgres::connect(&server, &name)).await.map_err(|_elapsed| silent(database, limit))?;
        let (client, driver, peer) = connected.map_err(|error| connect_error(error, database))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        let mut session = Self {
            client,
            peer,
            _driver: tasks,
            role: database.user(),
            version: None,
            needs,
            is_granted: false,
            limit,
        };
        session.answer(session.client.batch_execute(&settings(limit))).await?;
        let is_granted = session.client.query_one(MAY_CALL, &[&&[needs.allows()][..]]).await;
        session.is_granted = is_granted.and_then(|row| row.try_get(0)).unwrap_or_default();
        Ok(session)
    }

    /// Returns the time that was so long ago by the database's clock, as text.
    pub(crate) async fn time_ago(&self, ago: Duration) -> Result<String, RunError> {
        let row = self.answer(self.client.query_one(TIME_AGO, &[&ago.as_secs_f64()])).await?;
        row.try_get(0).map_err(|error| self.failed(error))
    }

    /// Limits each following statement to the time left until `deadline`.
    pub(crate) async fn end_at(&self, deadline: Instant) -> Result<(), RunError> {
        let left = deadline.saturating_duration_since(Instant::now()).max(LEAST_LIMIT);
        self.answer(self.client.batch_execute(&end_after(left))).await
    }

    /// Awaits a statement, no longer than [`in_time`](Self::in_time) does.
    pub(crate) async fn answer<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, RunError> {
        self.in_time(statement).await?.map_err(|error| self.failed(error))
    }

    /// Awaits a statement. The server ends it after the session's limit, but not while its commit waits for a
    /// synchronous standby (`statement_timeout` ends before a commit begins), nor while the server hangs.
    pub(crate) async fn in_time<T>(
        &self,
        statement: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, RunError> {
        timeout(self.limit.saturating_add(SLACK), statement).await.map_err(|_elapsed| {
            let limit = exact(self.limit);
            RunError::new(Kind::Database, format!("the database has neither done nor ended a statement within {limit}"))
                .hint(
                    "its commit may wait for a synchronous standby, as SyncRep in pg_stat_activity shows, and counts \
                     once that answers: look at the events then, before you do this again",
                )
        })
    }

    /// Returns the error of a failed statement, in the operator's terms.
    pub(crate) fn failed(&self, error: Error) -> RunError {
        let role = &self.role;
        let is = |states: &[SqlState]| error.code().is_some_and(|state| states.contains(state));
        let failed = if is(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
            let refused = RunError::new(Kind::NotPermitted, format!("the role {role:?} is not permitted to do this"));
            let grant = self.needs.by();
            // Errors of the outbox's own functions have their own hints.
            match error.as_db_error().and_then(|refusal| refusal.hint()) {
                Some(_) => refused,
                None if self.is_granted => {
                    refused.hint(format!("it has what outbox.{grant}() grants: grant it what the server names"))
                }
                None => refused.hint(format!(
                    "connect as another role, which has outbox.{grant}(); or, unless this one is the relay's, as the \
                     extension's owner: SELECT outbox.{grant}({})",
                    role_argument(role)
                )),
            }
        } else if is(&[
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::UNDEFINED_FUNCTION,
        ]) {
            match self.version.as_deref().and_then(mismatch) {
                Some(Mismatch { what, hint, .. }) => RunError::new(Kind::ExtensionVersion, what).hint(hint),
                None => RunError::new(Kind::ExtensionMissing, "the outbox, or a part of it, is not in this database")
                    .hint("CREATE EXTENSION outbox, in the database that DATABASE_URL names"),
            }
        } else if is(&[SqlState::QUERY_CANCELED]) {
            RunError::new(Kind::Database, format!("the database has not answered within {}", exact(self.limit)))
                .hint("narrow the search, or allow more by --timeout")
        } else if is(&[SqlState::LOCK_NOT_AVAILABLE]) {
            RunError::new(Kind::Database, "somebody has locked outbox.events, or the events").hint("try again later")
        } else if error.code().is_some_and(|state| state.code().starts_with(DATA_EXCEPTION)) {
            RunError::new(Kind::Usage, "the database does not understand what is asked for")
                .hint("look at the values on the command line")
        } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION]) {
            RunError::new(Kind::Database, "the database changes nothing here")
                .hint("connect to the primary, and check default_transaction_read_only")
        } else {
            RunError::new(Kind::Database, "a statement failed").hint("see the server's log")
        };
        failed.source(error)
    }
}

/// Returns the error for a server that has not answered within a command's `--timeout`.
pub(crate) fn silent(server: &dyn Display, limit: Duration) -> RunError {
    RunError::new(Kind::Database, format!("{server} has not answered within {}", exact(limit)))
        .hint("check that the server runs, or allow more by --timeout")
}

/// Runs work with the database, and ends it after `limit`, whatever it waits for.
///
/// # Errors
///
/// The work's own error, or that it has taken too long.
pub(crate) async fn within<T>(
    limit: Duration,
    config: &Config,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    timeout(limit, work).await.unwrap_or_else(|_elapsed| Err(silent(&config.database_url, limit)))
}

/// Whether the statement was ended because it took too long.
pub(crate) fn took_too_long(error: &Error) -> bool {
    error.code() == Some(&SqlState::QUERY_CANCELED)
}
