//! Logs which session or transaction a startup waits for, when it takes long.

use std::time::Duration;

use tokio_postgres::{Client, Error, Row, error::SqlState, types::ToSql};
use tracing::debug;

use crate::{
    error::chain,
    repeats::Repeats,
    store::{Blocker, sql},
};

/// How long a startup waits before it logs the reason.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a statement that needs the table; waits without a time limit while somebody has locked it.
pub(super) async fn for_table(
    client: &Client,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    for_comfort(client, sql::LOCK_PATIENCE_AT_START).await;
    let mut waits = Repeats::default();
    loop {
        match client.query(sql, parameters).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                let locks: [&(dyn ToSql + Sync); 1] = [&&sql::KEEP_PUBLICATION_OUT[..]];
                let what = "the start waits for someone who has locked outbox.events";
                log(client, sql::TABLE_LOCK, &locks, what, &mut waits).await;
            }
            ended => {
                for_comfort(client, sql::NO_LOCK_PATIENCE).await;
                return ended;
            }
        }
    }
}

/// Runs statements that the relay can do without; a refusal is logged at debug level only. A lost connection shows at
/// the next statement.
pub(super) async fn for_comfort(client: &Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql).await {
        debug!(target: "relay", statement = sql, error = chain(&error), "the server refuses a statement that the relay can do without");
    }
}

/// Logs the oldest transaction, for which the creation of a slot waits, if this role may see one.
pub(super) async fn oldest_transaction(client: &Client, waits: &mut Repeats) {
    log(client, sql::OLDEST_TRANSACTION, &[], Blocker::OF_SLOT, waits).await;
}

/// Logs the blocker that the statement `find` returns, less and less often while it stays the same.
async fn log(client: &Client, find: &str, parameters: &[&(dyn ToSql + Sync)], what: &str, waits: &mut Repeats) {
    let found = client.query_opt(find, parameters).await.and_then(|row| row.as_ref().map(Blocker::read).transpose());
    match found {
        Ok(Some(blocker)) if waits.count(&blocker.to_string()).0 => blocker.log(what),
        Ok(_) => {}
        Err(error) => debug!(target: "relay", error = chain(&error), "{what}; for whom is not to be seen"),
    }
}
