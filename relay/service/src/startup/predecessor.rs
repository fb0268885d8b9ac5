//! What a sink that reads back needs to know of the relays that had the slot before.

use outbox_core::InDoubt;
use pg_replication::Replication;
use tokio_postgres::Client;

use super::checks;
use crate::{config::Config, error::RunError, sink::publisher_name, store::Store};

/// The relays that had the slot before, and this one.
pub(super) struct Predecessor {
    /// The name under which all of them publish.
    pub(super) name: String,
    /// The time of their last verdict, in microseconds since the Unix epoch; `None`: nothing tells.
    pub(super) last_settled_us: Option<i64>,
    /// The floor that they have kept, in microseconds since the Unix epoch; `None`: there is none.
    pub(super) floor_us: Option<i64>,
    /// The events without a verdict that they have kept.
    pub(super) in_doubt: Vec<InDoubt>,
}

/// The identifier of the database's cluster, which a standby shares with its primary.
pub(super) async fn system(
    config: &Config,
    client: &Client,
    replication: &mut Replication,
) -> Result<Option<String>, RunError> {
    match replication.identify_system().await {
        Ok(identity) => Ok(Some(identity.system_id)),
        Err(error) => Err(checks::stream_error(config, client, error).await),
    }
}

/// Learns about them. The relay has the slot already, so none of them writes verdicts any more.
pub(super) async fn learn(config: &Config, store: &mut Store, system: &str) -> Result<Predecessor, RunError> {
    let cannot = |error| checks::store_error(error, "cannot learn which events earlier relays have left in doubt");
    let last_settled_us = store.last_settled().await.map_err(cannot)?;
    let name = publisher_name(system, &config.slot);
    let (floor_us, in_doubt) = store.take_over(&name).await.map_err(cannot)?;
    Ok(Predecessor { name, last_settled_us, floor_us, in_doubt })
}
