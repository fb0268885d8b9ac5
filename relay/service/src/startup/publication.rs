//! The publication: created or repaired, or replaced by reading the table.
//!
//! A database can refuse the repair, by an event trigger that freezes DDL or because this role lacks a right. The
//! events are in the table all the same.

use pg_replication::quoting::literal;
use tokio_postgres::Client;
use tracing::warn;

use super::waiting;
use crate::{
    config::Config,
    error::{Kind, RunError},
    legible::{role_argument, statement},
    store::{refusal, sql},
};

/// The state of the publication at the beginning of a session.
pub(super) enum Publication {
    /// The publication publishes every insert.
    Whole {
        /// Whether this role may repair the publication.
        is_repairable: bool,
    },
    /// The publication is incomplete and cannot be repaired, for the server's reason; the table is read instead.
    Useless(String),
}

/// Creates or repairs the publication. Returns what `outbox.ensure_publication` did.
pub(super) async fn ensure(config: &Config, client: &Client) -> Result<String, RunError> {
    let rows = waiting::for_table(client, sql::ENSURE_PUBLICATION, &[&config.publication]).await?;
    let row = rows.first().ok_or_else(|| RunError::new(Kind::Internal, "ensure_publication() has said nothing"))?;
    Ok(row.try_get(0)?)
}

/// Creates or repairs the publication. If the server refuses, checks whether the publication is complete, and logs the
/// refusal.
pub(super) async fn ensure_if_permitted(config: &Config, client: &Client) -> Result<Publication, RunError> {
    let (refused, to_do) = match waiting::for_table(client, sql::ENSURE_PUBLICATION, &[&config.publication]).await {
        Ok(_) => return Ok(Publication::Whole { is_repairable: true }),
        Err(error) => {
            let to_do = error.as_db_error().and_then(|refused| refused.hint()).map(statement);
            (refusal(&error).ok_or_else(|| RunError::from(error))?, to_do)
        }
    };
    let found = client.query_opt(sql::PUBLICATION_IS_WHOLE, &[&config.publication]).await?;
    let is_whole = found.map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
    let (publication, role) = (&config.publication, config.database_url.user());
    let by_another_role = || {
        format!(
            "let it run once as a role that may: SELECT outbox.ensure_publication({}); \
             and if a right is missing, as the extension's owner: SELECT outbox.grant_relay({})",
            statement(&literal(publication)),
            role_argument(&role)
        )
    };
    let hint = to_do.unwrap_or_else(by_another_role);
    if is_whole {
        warn!(target: "relay", publication, role, error = refused, hint, "the relay may not look after the publication, which publishes what it should now");
        return Ok(Publication::Whole { is_repairable: false });
    }
    warn!(target: "relay", publication, role, error = refused, hint, "the publication does not publish every event, and its repair was refused: the table is read every second instead, and the slot moves on");
    Ok(Publication::Useless(refused))
}
