//! Check of foreign keys that refer to the table: a deletion searches each of them for the event's id.

use outbox_service::error::chain;
use tokio_postgres::Error;

use crate::findings::Report;
use crate::queries::session::Session;

const CHECK: &str = "foreign_keys";

/// Foreign keys that refer to the table, and whose own columns have no index.
const KEYS_WITHOUT_INDEX: &str = "
    SELECT format('%s (%s)', foreign_key.conrelid::regclass, a.attname)
    FROM pg_constraint AS foreign_key
    JOIN pg_attribute AS a ON a.attrelid = foreign_key.conrelid AND a.attnum = foreign_key.conkey[1]
    WHERE foreign_key.contype = 'f' AND foreign_key.confrelid = to_regclass('outbox.events')
      AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = foreign_key.conrelid AND i.indkey[0] = foreign_key.conkey[1] AND i.indisvalid)
    ORDER BY 1";

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
    let rows = session.client.query(KEYS_WITHOUT_INDEX, &[]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}
