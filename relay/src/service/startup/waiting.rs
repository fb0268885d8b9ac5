//! Says for whom a start waits, when it takes long.

use std::time::Duration;

use tokio_postgres::{Client, Row, error::SqlState, types::ToSql};
use tracing::info;

use crate::{error::RunError, outbox::sql, repeats::Repeats};

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
                log(client, sql::TABLE_LOCK, "the start waits for someone who has locked outbox.events", &mut waits)
                    .await?;
            }
            Ok(rows) => {
                client.batch_execute(sql::NO_LOCK_PATIENCE).await?;
                return Ok(rows);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Making a slot waits for every transaction that is older. Says for whose, in words, if there is one.
pub(super) async fn oldest_transaction(client: &Client, waits: &mut Repeats) -> Result<Option<String>, RunError> {
    const WHAT: &str = "making the slot waits for an older transaction to end";
    let who = log(client, sql::OLDEST_TRANSACTION, WHAT, waits).await?;
    Ok(who.map(|who| format!("{WHAT}: {who}")))
}

/// Tells who it is, the first time and then ever more seldom.
async fn log(client: &Client, find: &str, what: &str, waits: &mut Repeats) -> Result<Option<String>, RunError> {
    let Some(row) = client.query_opt(find, &[]).await? else { return Ok(None) };
    let (pid, user): (Option<i32>, &str) = (row.try_get(0)?, row.try_get(1)?);
    let (application, state): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
    let seconds: Option<i64> = row.try_get(4)?;
    let process = pid.map(|pid| format!("process {pid} of ")).unwrap_or_default();
    let named = application.filter(|name| !name.is_empty()).map(|name| format!(" ({name:?})")).unwrap_or_default();
    let who = format!("{process}role {user:?}{named}");
    if !waits.count(&who).0 {
        return Ok(Some(who));
    }
    if state.is_some() {
        info!(target: "relay", pid, user, application, state, seconds, "{what}");
    } else {
        // The session is another role's.
        info!(target: "relay", pid, user, "{what}; to see its application and state, GRANT pg_read_all_stats to the relay's role");
    }
    Ok(Some(who))
}
