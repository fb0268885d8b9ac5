//! The outbox table as the demo watches it.

use std::time::Duration;

use harness::{Database, SOON, eventually};
use uuid::Uuid;

use crate::screen::Screen;

/// Short, because the time until then is shown; not zero, or watching would take the CPU from what is watched.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until the event's status is `wanted`.
///
/// # Panics
/// When it is not within [`SOON`].
pub(crate) async fn wait_for_status(db: &Database, id: Uuid, wanted: &str) {
    let asking = async {
        loop {
            let row = db.query_one("SELECT status::text FROM outbox.events WHERE id = $1", &[&id]).await;
            if row.expect("the event's row is there").get::<_, &str>(0) == wanted {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, asking).await.is_ok();
    assert!(in_time, "event {id} did not become {wanted} within {SOON:?}");
}

/// Waits until `count` events are `SENT`.
pub(crate) async fn wait_for_sent(db: &Database, count: usize, deadline: Duration) {
    eventually(&format!("{count} rows are SENT"), deadline, async || {
        let sent = count_with_status(db, "SENT").await;
        if sent == count { Ok(()) } else { Err(sent) }
    })
    .await;
}

/// How many events have that status.
pub(crate) async fn count_with_status(db: &Database, status: &str) -> usize {
    let query = "SELECT count(*) FROM outbox.events WHERE status::text = $1";
    let row = db.query_one(query, &[&status]).await.expect("a count");
    usize::try_from(row.get::<_, i64>(0)).expect("a count is not negative")
}

/// Shows an event's row.
pub(crate) async fn show(screen: &Screen, db: &Database, id: Uuid) {
    let query = "SELECT id::text, topic, status::text, attempts::text, coalesce(last_error, '') AS last_error
                 FROM outbox.events WHERE id = $1";
    let row = db.query_one(query, &[&id]).await.expect("the event's row is there");
    let names: Vec<String> = row.columns().iter().map(|column| column.name().to_owned()).collect();
    let cells = (0..row.len()).map(|column| row.get(column)).collect();
    screen.table(&names, &[cells]);
}
