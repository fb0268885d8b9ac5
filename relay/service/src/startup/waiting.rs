//! Says for whom a start waits, when it takes long.

use std::time::Duration;

use tokio_postgres::{Client, Error, Row, error::SqlState, types::ToSql};
use tracing::debug;

use crate::{
    error::chain,
    repeats::Repeats,
    store::{Blocker, sql},
};

/// How long a start may wait before it says for whom.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a statement that needs the table, however long somebody has locked it.
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

/// Runs statements without which the relay works as well, if less comfortably: nobody's refusal of one keeps it from its work. A lost
/// connection shows at the next statement.
pub(super) async fn for_comfort(client: &Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql).await {
        debug!(target: "relay", statement = sql, error = chain(&error), "the server refuses a statement that the relay can do without");
    }
}

/// Making a slot waits for every transaction that is older: tells for whose, if there is one that this role may see.
pub(super) async fn oldest_transaction(client: &Client, waits: &mut Repeats) {
    log(client, sql::OLDEST_TRANSACTION, &[], Blocker::OF_SLOT, waits).await;
}

/// Tells who it is, the first time and then ever more seldom.
async fn log(client: &Client, find: &str, parameters: &[&(dyn ToSql + Sync)], what: &str, waits: &mut Repeats) {
    let found = client.query_opt(find, parameters).await.and_then(|row| row.as_ref().map(Blocker::read).transpose());
    match found {
        Ok(Some(blocker)) if waits.count(&blocker.to_string()).0 => blocker.tell(what),
        Ok(_) => {}
        Err(error) => debug!(target: "relay", error = chain(&error), "{what}; for whom is not to be seen"),
    }
}
