//! Says for whom a start waits, when it takes long.

use std::time::Duration;

use tokio_postgres::{Client, Row, error::SqlState, types::ToSql};

use crate::{
    error::RunError,
    outbox::{Blocker, sql},
    repeats::Repeats,
};

/// How long a start may wait before it says for whom.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a statement that needs the table, however long somebody has locked it.
pub(super) async fn for_table(
    client: &Client,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, RunError> {
    client.batch_execute(sql::LOCK_PATIENCE_AT_START).await?;
    let mut waits = Repeats::default();
    loop {
        match client.query(sql, parameters).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                let locks: [&(dyn ToSql + Sync); 1] = [&&sql::KEEP_PUBLICATION_OUT[..]];
                let what = "the start waits for someone who has locked outbox.events";
                log(client, sql::TABLE_LOCK, &locks, what, &mut waits).await?;
            }
            Ok(rows) => {
                client.batch_execute(sql::NO_LOCK_PATIENCE).await?;
                return Ok(rows);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Making a slot waits for every transaction that is older: tells for whose, if there is one.
pub(super) async fn oldest_transaction(client: &Client, waits: &mut Repeats) -> Result<(), RunError> {
    log(client, sql::OLDEST_TRANSACTION, &[], Blocker::OF_SLOT, waits).await.map(drop)
}

/// Tells who it is, the first time and then ever more seldom.
async fn log(
    client: &Client,
    find: &str,
    parameters: &[&(dyn ToSql + Sync)],
    what: &str,
    waits: &mut Repeats,
) -> Result<Option<String>, RunError> {
    let Some(row) = client.query_opt(find, parameters).await? else { return Ok(None) };
    let blocker = Blocker::read(&row)?;
    let who = blocker.to_string();
    if waits.count(&who).0 {
        blocker.tell(what);
    }
    Ok(Some(who))
}
