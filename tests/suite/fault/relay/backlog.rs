//! SIGKILL while events wait in the table: more than the relay can hold, or with no broker to take them.

use harness::{Proxy, SOON, Stack, eventually};
use tokio_postgres::types::PgLsn;

use super::{emit, repeated};

const EVENTS: usize = 50_000;
const IN_FLIGHT: usize = 133;

#[tokio::test]
async fn killed_several_times_in_a_backlog_it_repeats_no_more_than_what_had_no_verdict() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let settings = || {
        // The backlog is larger by far: it is worked off parked, page by page.
        stack.relay().set("in-flight", &IN_FLIGHT.to_string()).set("max-bytes", "12000KiB")
    };
    settings().start().await.stop().await; // the slot brings the backlog, too
    let mut ids = emit(&stack.db, EVENTS / 2, 100).await;
    ids.extend(emit(&stack.db, EVENTS / 2, 100).await);

    let mut kills = 0;
    for count in [3_000, 15_000, 30_000, 45_000] {
        let relay = settings().spawn();
        consumer.wait_for(count).await;
        relay.kill().await;
        kills += 1;
    }
    let relay = settings().start().await;
    // In flight, in the batch being written, and in the one that was filling.
    let unsettled = 3 * IN_FLIGHT;
    let repeated = repeated(&stack, &consumer, &ids).await;
    println!("{repeated} repeated after {kills} kills");
    assert!(repeated <= kills * unsettled, "{repeated} repeated");
    eventually("the slot is worked off, too", SOON, async || {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::bigint
                   FROM pg_replication_slots WHERE slot_name = $1";
        let lag: i64 = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
        if lag < 1_000_000 { Ok(()) } else { Err(lag) }
    })
    .await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn killed_while_parked_it_has_left_in_the_table_what_the_slot_does_not_bring_again() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let relay = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port())).set("park-after", "100ms");
    let relay = relay.start().await;
    proxy.refuse();
    proxy.cut();
    relay.wait_for_log("parked").await;
    let ids = emit(&stack.db, 3000, 100).await;
    let end: PgLsn = stack.db.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await.unwrap().get(0);
    eventually("all of it is acknowledged", SOON, async || {
        let sql = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1";
        let confirmed: PgLsn = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
        if confirmed >= end { Ok(()) } else { Err((confirmed, end)) }
    })
    .await;
    relay.kill().await;
    assert_eq!(consumer.count(), 0);

    let _next = stack.relay().start().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}
