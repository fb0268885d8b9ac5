//! A connection to the database as one role, opened at its first use, and again after it has broken.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use outbox_service::{
    address::Address,
    database::{
        ownership::{Ownership, Untrusted},
        postgres,
    },
    error::chain,
};
use pg_replication::ConnInfo;
use serde_json::Value;
use tokio::{
    sync::{Mutex, MutexGuard},
    task::JoinSet,
    time::timeout,
};
use tokio_postgres::{
    Client, Error, Row,
    error::SqlState,
    types::{ToSql, Type},
};
use tracing::warn;

use super::refusal::Refusal;

/// Longest wait for a connection to the database.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest wait of a query for earlier ones: a session runs one statement at a time.
const QUEUE: Duration = Duration::from_secs(5);

/// Longest wait for the answer to a statement that reads. [`READING`] has the server end it before, unless it hangs.
const READ: Duration = Duration::from_secs(5);

/// Longest wait for the answer to an action. [`OPERATING`] has the server end it before, but not while its commit waits
/// for a synchronous standby, which no setting limits.
const ACT: Duration = Duration::from_secs(33);

/// The answer after [`READ`].
const SILENT: &str = "The database does not answer.";

/// The answer after [`ACT`].
const UNCERTAIN: &str = "The database has not answered. What you asked for may be done all the same, and count once a \
    synchronous standby answers: look at the events then, before you ask again.";

/// Settings of a session for reading: it cannot write whatever its role may do, statements end soon, plans are made for
/// the actual arguments, and plans that would read the whole table are ruled out.
pub(super) const READING: &str = "
    SET default_transaction_read_only = on;
    SET statement_timeout = '2s';
    SET lock_timeout = '1s';
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET jit = off;
    SET max_parallel_workers_per_gather = 0;
    SET timezone = 'UTC'";

/// Settings of an operator's session.
pub(super) const OPERATING: &str = "
    SET statement_timeout = '30s';
    SET lock_timeout = '5s';
    SET jit = off;
    SET timezone = 'UTC'";

/// Rights of this role that the page never needs, as a sentence; empty if there are none. `$1` is whether the role
/// serves operators.
const EXCESS: &str = "
    SELECT to_json(concat_ws(', ',
        CASE WHEN r.rolsuper THEN 'it is a superuser' END,
        CASE WHEN has_table_privilege('outbox.events', 'INSERT, UPDATE, DELETE, TRUNCATE') THEN 'it may change outbox.events' END,
        CASE WHEN NOT $1::text::boolean AND has_column_privilege('outbox.events', 'payload', 'SELECT') THEN 'it may read payloads' END,
        CASE WHEN NOT $1::text::boolean AND has_function_privilege('outbox.replay(uuid)', 'EXECUTE') THEN 'it may replay' END))::text
    FROM pg_roles AS r WHERE r.rolname = current_user";

/// An argument of a statement, as text that the statement casts.
pub(super) type Argument<'a> = Option<&'a str>;

/// Runs the statements of one role.
#[derive(Debug)]
pub(super) struct Source {
    server: Address<ConnInfo>,
    name: String,
    begin: &'static str,
    session: Mutex<Option<Arc<Session>>>,
    /// Queue of statements, as the session runs one at a time. A client that hangs up leaves the queue, and costs the
    /// database nothing.
    turn: Mutex<()>,
    /// Lock of actions, one at a time: the operator's name is a setting of the session.
    acting: Mutex<()>,
}

#[derive(Debug)]
struct Session {
    client: Client,
    /// The task that drives the connection; it ends with the session.
    _work: JoinSet<()>,
}

/// Waits for the lock, at most for [`QUEUE`].
async fn in_turn(turn: &Mutex<()>) -> Result<MutexGuard<'_, ()>, Refusal> {
    let busy =
        |_| Refusal::unavailable("The database is still busy with what others have asked. Try again in a moment.");
    timeout(QUEUE, turn.lock()).await.map_err(busy)
}

impl Source {
    pub(super) fn new(server: Address<ConnInfo>, relay_name: &str, begin: &'static str) -> Self {
        let mut name = format!("{relay_name} dashboard");
        name.truncate(name.floor_char_boundary(63));
        Self { server, name, begin, session: Mutex::default(), turn: Mutex::default(), acting: Mutex::default() }
    }

    /// Returns the JSON that a statement returns as the text of its only row and column.
    pub(super) async fn json(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Value, Refusal> {
        let rows = self.rows(sql, arguments).await?;
        let text: Option<&str> = rows.first().and_then(|row| row.try_get(0).ok());
        let unexpected = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The database gave no JSON.");
        text.map_or(Ok(Value::Null), |text| serde_json::from_str(text).map_err(|_| unexpected()))
    }

    /// Returns what `read` makes of a statement's rows.
    pub(super) async fn read<T>(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
        read: impl FnOnce(&[Row]) -> Result<T, Error>,
    ) -> Result<T, Refusal> {
        let rows = self.rows(sql, arguments).await?;
        read(&rows).map_err(|error| self.refuse(&error))
    }

    async fn rows(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>, Refusal> {
        let arguments: Vec<(&(dyn ToSql + Sync), Type)> =
            arguments.iter().map(|argument| (argument as &(dyn ToSql + Sync), Type::TEXT)).collect();
        let _turn = in_turn(&self.turn).await?;
        let session = self.session().await?;
        let (longest, what) = if self.begin == OPERATING { (ACT, UNCERTAIN) } else { (READ, SILENT) };
        let Ok(answer) = timeout(longest, session.client.query_typed(sql, &arguments)).await else {
            *self.session.lock().await = None; // the next statement would wait behind this one
            return Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, what));
        };
        answer.map_err(|error| self.refuse(&error))
    }

    /// Runs one action, with the session's operator set to `who` meanwhile.
    pub(super) async fn act(&self, who: &str, sql: &str, arguments: &[Argument<'_>]) -> Result<Value, Refusal> {
        let _alone = in_turn(&self.acting).await?;
        self.json("SELECT to_json(set_config('outbox.operator', $1, false))::text", &[Some(who)]).await?;
        self.json(sql, arguments).await
    }

    /// Returns the session, opened if there is none.
    async fn session(&self) -> Result<Arc<Session>, Refusal> {
        let mut kept = self.session.lock().await;
        if let Some(session) = kept.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let opened = async {
            let server = self.server.now().map_err(|bad| bad.to_string())?;
            let (client, work, _) = postgres::connect(&server, &self.name).await.map_err(|error| chain(&error))?;
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                let _ = work.await; // the next query sees that the session has ended
            });
            client.batch_execute(self.begin).await.map_err(|error| chain(&error))?;
            let ownership = Ownership::of(&client).await.map_err(|error| chain(&error))?;
            if let Some(Untrusted { what, to_do, .. }) = ownership.untrusted() {
                return Err(format!("{what}: {to_do}"));
            }
            self.complain_of_excess(&client).await;
            Ok(Arc::new(Session { client, _work: tasks }))
        };
        let opened = timeout(CONNECT, opened).await.unwrap_or_else(|_| Err(format!("{} does not answer", self.server)));
        let session =
            opened.map_err(|why: String| Refusal::unavailable(format!("The database cannot be asked: {why}")))?;
        Ok(Arc::clone(kept.insert(session)))
    }

    /// Warns if the role has more rights than the page needs, because a fault of the page could then use them.
    async fn complain_of_excess(&self, client: &Client) {
        let acts = if self.begin == OPERATING { "true" } else { "false" };
        let Ok(rows) = client.query_typed(EXCESS, &[(&acts, Type::TEXT)]).await else { return };
        let excess: Option<Value> =
            rows.first().and_then(|row| row.try_get(0).ok()).and_then(|text: &str| serde_json::from_str(text).ok());
        if let Some(Value::String(excess)) = excess
            && !excess.is_empty()
        {
            let grant = if self.begin == OPERATING { "outbox.grant_operate" } else { "outbox.grant_monitor" };
            warn!(target: "relay", role = self.server.user(), excess, grant, "the role may do more than the dashboard needs");
        }
    }

    fn refuse(&self, error: &Error) -> Refusal {
        let said = error.as_db_error().map_or_else(|| chain(error), |refused| refused.message().to_owned());
        match error.code() {
            Some(&SqlState::QUERY_CANCELED) => Refusal::new(
                StatusCode::GATEWAY_TIMEOUT,
                "The database took too long, and was told to stop. Ask for less.",
            ),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                Refusal::unavailable(format!("Role {} of the dashboard may not do that: {said}.", self.server.user()))
            }
            Some(code) if code.code().starts_with("22") => {
                Refusal::bad(format!("The database does not understand: {said}."))
            }
            Some(&(SqlState::UNDEFINED_FUNCTION | SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME)) => {
                Refusal::unavailable(format!(
                    "The outbox of this database is older than the relay, or is not there: {said}."
                ))
            }
            _ => Refusal::unavailable(format!("The database cannot be asked: {said}")),
        }
    }
}
