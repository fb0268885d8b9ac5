//! Says for whom a start waits, when it takes long.

use std::time::Duration;

use tokio_postgres::{Client, Row, error::SqlState, types::ToSql};
use tracing::info;

use super::checks;
use crate::error::RunError;

/// How long a start may wait before it says for whom.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_WITH_LOCKS: &str = "SET lock_timeout = '2s'";

/// The oldest transaction that writes. One that is prepared has no session any more.
const OLDEST_TRANSACTION: &str = "
    SELECT pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint
    FROM (SELECT pid, usename, application_name, state, xact_start, backend_xid AS xid FROM pg_catalog.pg_stat_activity
          UNION ALL
          SELECT NULL, owner, 'prepared transaction ' || gid, 'prepared', prepared, transaction FROM pg_catalog.pg_prepared_xacts) AS t
    WHERE xid IS NOT NULL ORDER BY pg_catalog.age(xid) DESC LIMIT 1";

/// Who has locked the table, the strongest lock first.
const TABLE_LOCK: &str = "
    SELECT holder.pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint
    FROM pg_catalog.pg_locks AS holder LEFT JOIN pg_catalog.pg_stat_activity USING (pid)
    WHERE holder.relation = pg_catalog.to_regclass('outbox.events') AND holder.granted AND holder.mode LIKE '%Exclusive%'
      AND holder.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    ORDER BY holder.mode = 'AccessExclusiveLock' DESC, xact_start LIMIT 1";

/// Runs a statement that needs the table, however long somebody has locked it.
pub(super) async fn for_table(
    client: &Client,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, RunError> {
    client.batch_execute(PATIENCE_WITH_LOCKS).await.map_err(checks::sql_error)?;
    loop {
        match client.query(sql, parameters).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                log(client, TABLE_LOCK, "the start waits for someone who has locked outbox.events").await?;
            }
            Ok(rows) => {
                client.batch_execute("RESET lock_timeout").await.map_err(checks::sql_error)?;
                return Ok(rows);
            }
            Err(error) => return Err(checks::sql_error(error)),
        }
    }
}

/// Making a slot waits for every transaction that is older.
pub(super) async fn log_oldest_transaction(client: &Client) -> Result<(), RunError> {
    log(client, OLDEST_TRANSACTION, "making the slot waits for an older transaction to end").await
}

async fn log(client: &Client, find: &str, what: &str) -> Result<(), RunError> {
    let Some(row) = client.query_opt(find, &[]).await.map_err(checks::sql_error)? else { return Ok(()) };
    let pid: Option<i32> = row.try_get(0).map_err(checks::sql_error)?;
    let user: &str = row.try_get(1).map_err(checks::sql_error)?;
    let application: Option<&str> = row.try_get(2).map_err(checks::sql_error)?;
    let state: Option<&str> = row.try_get(3).map_err(checks::sql_error)?;
    let seconds: Option<i64> = row.try_get(4).map_err(checks::sql_error)?;
    if state.is_some() {
        info!(target: "relay", pid, user, application, state, seconds, "{what}");
    } else {
        // The session is another role's.
        info!(target: "relay", pid, user, "{what}; to see its application and state, GRANT pg_read_all_stats to the relay's role");
    }
    Ok(())
}
