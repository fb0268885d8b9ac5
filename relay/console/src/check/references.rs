//! Check of foreign keys that refer to the table: a deletion searches each of them for the event's id.

use outbox_service::error::chain;
use tokio_postgres::Error;

use super::finding::Report;
use crate::queries::{session::Session, sql};

const CHECK: &str = "foreign_keys";

pub(super) async fn inspect(session: &Session, report: &mut Report) {
    match without_index(session).await {
        Ok(keys) if keys.is_empty() => report.ok(CHECK, "none refers to outbox.events without an index"),
        Ok(keys) => {
            let found =
                format!("each deletion of an event reads a whole table, for want of an index: {}", keys.join(", "));
            report.warning(
                CHECK,
                found,
                "create an index on the column of each, before retention or purge has much to delete",
            );
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

async fn without_index(session: &Session) -> Result<Vec<String>, Error> {
    let rows = session.client.query(sql::KEYS_WITHOUT_INDEX, &[]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}
