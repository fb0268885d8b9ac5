//! The publication: made or repaired, or done without.
//!
//! A database can refuse to have it repaired: an event trigger that freezes DDL, a right that this role lacks. The events stand in the
//! table all the same.

use tokio_postgres::Client;
use tracing::warn;

use super::waiting;
use crate::{
    config::Config,
    error::{Kind, RunError},
    store::{refusal, sql},
};

/// What a session has of the publication.
pub(super) enum Publication {
    /// It publishes every insert.
    Whole {
        /// Whether this role may repair it.
        is_repairable: bool,
    },
    /// It does not, and cannot be repaired; the server's words. The table is read instead.
    Useless(String),
}

/// Makes or repairs the publication; says what had to be done.
pub(super) async fn ensure(config: &Config, client: &Client) -> Result<String, RunError> {
    let rows = waiting::for_table(client, sql::ENSURE_PUBLICATION, &[&config.publication]).await?;
    let row = rows.first().ok_or_else(|| RunError::new(Kind::Internal, "ensure_publication() has said nothing"))?;
    Ok(row.try_get(0)?)
}

/// The same; if that is refused, looks what the publication is good for, and tells.
pub(super) async fn ensure_if_permitted(config: &Config, client: &Client) -> Result<Publication, RunError> {
    let refused = match waiting::for_table(client, sql::ENSURE_PUBLICATION, &[&config.publication]).await {
        Ok(_) => return Ok(Publication::Whole { is_repairable: true }),
        Err(error) => refusal(&error).ok_or_else(|| RunError::from(error))?,
    };
    let found = client.query_opt(sql::PUBLICATION_IS_WHOLE, &[&config.publication]).await?;
    let is_whole = found.map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
    let (publication, role) = (&config.publication, config.database_url.user());
    let hint = format!(
        "let it run once as a role that may: SELECT outbox.ensure_publication('{publication}'); \
         and if a right is missing, as the extension's owner: SELECT outbox.grant_relay('{role}')"
    );
    if is_whole {
        warn!(target: "relay", publication, role, error = refused, hint, "the relay may not look after the publication, which publishes what it should now");
        return Ok(Publication::Whole { is_repairable: false });
    }
    warn!(target: "relay", publication, role, error = refused, hint, "the publication does not publish every event, and its repair was refused: the table is read every second instead, and the slot moves on");
    Ok(Publication::Useless(refused))
}
