//! The slot runs out: first because a transaction is left open while others write a lot, then because no relay runs.

use harness::Connection;

use crate::shop::Shop;

/// 4 MB of WAL, in a table that has nothing to do with the outbox.
const WRITE: &str = "INSERT INTO import SELECT repeat(md5(n::text), 250) FROM generate_series(1, 500) AS n";

pub(crate) async fn play() {
    let shop = Shop::open("The slot runs out", &[], &[]).await;
    let at = &shop.terminal;
    for statement in [
        "CREATE TABLE import (line text)",
        "ALTER TABLE import ALTER line SET STORAGE EXTERNAL",
        "ALTER SYSTEM SET max_slot_wal_keep_size = '256MB'",
        "SELECT pg_reload_conf()",
    ] {
        shop.db.batch_execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e:?}"));
    }
    let import = async |times| {
        for _ in 0..times {
            shop.db.batch_execute(WRITE).await.expect("the import writes");
        }
    };
    let consumer = shop.consumer("orders", "orders.*").await;
    let orders = shop.take_orders(&["orders.created", "orders.paid"]).await;
    consumer.wait_for(50).await;
    at.happens(
        "somebody has left a transaction open in the evening; now an import writes 170 MB, of 256 MB that a slot may \
         keep",
    );
    let forgotten = Connection::open(&shop.url).await;
    forgotten
        .batch_execute("SET application_name = 'report'; BEGIN; CREATE TEMPORARY TABLE report (line text)")
        .await
        .expect("BEGIN");
    import(40).await;
    shop.pager.rings("OutboxSlotKeepsWal").await;
    at.types("outbox-relay status");
    shop.checks();
    shop.relays_warnings();
    at.happens("there is time to ask whose report that is; but the import writes another 60 MB");
    import(14).await;
    shop.pager.rings("OutboxSlotRunsOut").await;
    at.types("outbox-relay status");
    let query = "SELECT pid, xact_start, state, application_name FROM pg_stat_activity \
                 WHERE backend_xid IS NOT NULL ORDER BY xact_start";
    at.types(&format!("psql $DATABASE_URL -c '{query}'"));
    let pid: i32 = forgotten.query_one("SELECT pg_backend_pid()", &[]).await.expect("a process").get(0);
    at.types(&format!("psql $OWNER -c 'SELECT pg_terminate_backend({pid})'"));
    shop.sees("the slot has moved on", "slot_kept_bytes < 20000000").await;
    at.types("outbox-relay status");
    shop.pager.is_quiet().await;

    at.happens("the machine of the relay dies; orders come in, and the import writes 380 MB");
    shop.relay.kill().await;
    import(90).await;
    shop.db.batch_execute("CHECKPOINT").await.expect("checkpoint");
    shop.pager.rings("OutboxRelayGone").await;
    at.types("curl --silent --show-error $RELAY/readyz");
    at.types("outbox-relay status");
    shop.checks();
    at.happens("the relay is started, on another machine");
    let relay = shop.builder.start().await;
    at.shows("journalctl --unit outbox-relay", &relay.log_text());
    at.types("outbox-relay status");
    shop.pager.is_quiet().await;
    let events = orders.close();
    shop.account(&events, &[&consumer]).await;
}
