//! Step 7: what was committed is what arrived.

use std::{collections::HashSet, time::Instant};

use harness::{Database, SOON, eventually};
use uuid::Uuid;

use crate::{
    demo::Demo,
    rows::count_with_status,
    screen::{count, mib},
};

/// The account of all steps before.
pub(crate) async fn show(demo: &mut Demo) {
    demo.screen.step("The account");
    let begin = Instant::now();
    let lag = no_lag(&demo.db).await;
    let lag_time = begin.elapsed();
    demo.record_memory();

    let ids = demo.broker.ids();
    let distinct: HashSet<Uuid> = ids.iter().copied().collect();
    let committed: HashSet<Uuid> = demo.committed.iter().copied().collect();
    let db = &demo.db;
    let (sent, failed) = (count_with_status(db, "SENT").await, count_with_status(db, "FAILED").await);
    let pending = count_with_status(db, "PENDING").await;

    let line = |name: &str, number: usize, text: &str| {
        demo.screen.fact(name, format!("{:>8}  {text}", count(number)).trim_end());
    };
    line("events committed", committed.len(), &format!("and {} rolled back", count(demo.rolled_back.len())));
    line("delivered", ids.len(), &format!("{} repeated, with the same id", count(ids.len() - distinct.len())));
    line("rows SENT", sent, "");
    line("rows FAILED", failed, "");
    line("rows PENDING", pending, "");
    demo.screen.timed("slot's lag", &format!("{lag:>8}  bytes"), lag_time);
    demo.screen.fact("relay's peak memory", &format!("{:>8}  MiB", mib(demo.peak_rss_bytes)));

    demo.screen.promise("what was committed is what arrived", distinct == committed, true);
    let undone = demo.rolled_back.iter().filter(|id| distinct.contains(id)).count();
    demo.screen.promise("nothing that was rolled back arrived", undone, 0);
    demo.screen.promise("every row is SENT", (sent, failed, pending), (committed.len(), 0, 0));
}

/// Waits until the slot holds no write-ahead log back; returns its lag in bytes: 0.
async fn no_lag(db: &Database) -> i64 {
    let query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
                 FROM pg_replication_slots WHERE database = current_database()";
    eventually("the slot's lag is 0", SOON, async || match db.query_one(query, &[]).await {
        Ok(row) if row.get::<_, i64>(0) <= 0 => Ok(0),
        Ok(row) => Err(format!("{} bytes", row.get::<_, i64>(0))),
        Err(error) => Err(format!("{error:?}")),
    })
    .await
}
