//! Shapes of data and amounts of it that break lesser relays.
//!
//! Every test here emits each key from one session only, so that the order of `seq` is the order of the key's commits.

mod beside_backlog;
mod brokers_headers;
mod gate;
mod history;
mod hot_key;
mod large;
mod largest;
mod ledger;
mod many_keys;
mod nacked;
mod outage;
mod poison;
mod resumed;
mod savepoints;
mod stuck_keys;
mod transaction;
mod unchecked;
mod unreadable;

use std::time::Duration;

use harness::{Connection, Relay, RelayBuilder, Stack, eventually};

/// For what moves hundreds of thousands of events on a loaded machine. A test that passes never waits for it.
const LONG: Duration = Duration::from_secs(180);

/// No pending event stays first for so long, however loaded the machine is.
const STALLED: Duration = Duration::from_secs(60);

/// What a relay with the default settings may hold in RAM, whatever the data.
const MEMORY_BYTES: u64 = 64_000_000;

/// A relay that soon leaves events to the table, and for a whole test tries again what is nacked.
fn patient_relay(stack: &Stack) -> RelayBuilder {
    let relay = stack.relay().set("park-after", "200ms").set("max-attempts", "1000");
    relay.set("retry-base", "50ms").set("retry-max", "500ms")
}

/// How many rows fulfil `condition`.
async fn count(db: &Connection, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM outbox.events WHERE {condition}");
    db.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Waits until no row that fulfils `condition` is pending, for as long as the first pending one moves on. Reads the
/// indexes of pending rows from there, so that watching costs the server little.
async fn wait_until_none_is_pending(db: &Connection, condition: &str) {
    let sql = format!(
        "SELECT min(seq) FROM (
             (SELECT seq FROM outbox.events
              WHERE status = 'PENDING' AND available_at IS NULL AND seq >= $1 AND ({condition}) ORDER BY seq LIMIT 1)
             UNION ALL
             SELECT min(seq) FROM outbox.events WHERE status = 'PENDING' AND available_at IS NOT NULL AND ({condition})
         ) AS pending"
    );
    let mut lowest = 0;
    loop {
        let what = format!("seq {lowest}, the first that is pending where {condition}, is not pending any more");
        let next = eventually(&what, STALLED, async || {
            let next: Option<i64> = db.query_one(&sql, &[&lowest]).await.unwrap().get(0);
            if next == Some(lowest) { Err("it still is") } else { Ok(next) }
        })
        .await;
        let Some(next) = next else { return };
        lowest = next;
    }
}

fn assert_memory_was_bounded(relay: &Relay) {
    let peak = relay.usage().peak_rss_bytes;
    println!("peak RSS {} kB", peak / 1024);
    assert!(peak < MEMORY_BYTES, "peak RSS {peak} bytes");
}

/// A size from the environment, for a run with more than the suite has time for.
fn size(variable: &str, default: i64) -> i64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}
