//! The session that creates the slot and reads it, with its time limits.

use std::time::Duration;

use pg_replication::{ConnInfo, Replication};
use tokio_postgres::{Client, error::SqlState};
use tracing::debug;

use super::checks;
use crate::{
    config::Config,
    database::{errors::replication_connect_error, platform::Platform},
    error::{RunError, chain},
    store::sql,
};

/// Opens a replication session, which can create the slot and read it.
pub(super) async fn connect(config: &Config, server: &ConnInfo, client: &Client) -> Result<Replication, RunError> {
    let database = &config.database_url;
    let mut replication = match server.connect_replication(&config.application_name).await {
        Ok(replication) => replication,
        Err(error) => return Err(replication_connect_error(error, database, Platform::of(client).await)),
    };
    let millis = silence(config, client).await?.as_millis().to_string();
    if let Err(error) = replication.set("wal_sender_timeout", &millis).await {
        if error.connection_lost() || error.sqlstate().is_none() {
            return Err(checks::stream_error(config, client, error).await);
        }
        debug!(target: "relay", error = chain(&error), "the server keeps its own wal_sender_timeout");
    }
    // Creating a slot waits for locks of all older transactions.
    if let Err(error) = replication.set("lock_timeout", "0").await {
        debug!(target: "relay", error = chain(&error), "the session keeps its lock_timeout");
    }
    check_client(&mut replication).await;
    Ok(replication)
}

/// Has the server check twice a second whether this relay is alive while a command waits.
pub(super) async fn check_client(session: &mut Replication) {
    if let Err(error) = session.set("client_connection_check_interval", "500").await {
        debug!(target: "relay", error = chain(&error), "the server cannot tell whether this relay lives while the slot is made");
    }
}

/// The stream's `wal_sender_timeout`: the server's own, but at most `takeover_after`, so that a standby takes over in
/// time. Where this role may not see the server's, `takeover_after` is used.
pub(super) async fn silence(config: &Config, client: &Client) -> Result<Duration, RunError> {
    let millis: i32 = match client.query_one(sql::WAL_SENDER_TIMEOUT, &[]).await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => 0,
        found => found?.try_get(0)?,
    };
    let own = u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
    Ok(own.map_or(config.takeover_after, |own| own.min(config.takeover_after)))
}
