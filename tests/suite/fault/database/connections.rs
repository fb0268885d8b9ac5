//! The server has no connection left for a relay that comes back.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use pg_replication::ConnInfo;

use super::{Load, REPEATED, check, drop_role, lost_sessions, relay_role, run, terminate};

#[tokio::test]
async fn a_relay_that_finds_no_free_connection_waits_for_one_and_loses_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    let relay = super::relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let load = Load::start(stack.db.url());
    load.goes_on(200).await;

    // The server says 53300, as when max_connections is reached.
    run(&stack.db, &format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await;
    let mark = relay.mark();
    terminate(&stack.db, &["client backend", "walsender"]).await;
    let line = relay.wait_for_log_after(mark, "no connection left").await;
    assert!(line.contains("53300"), "{line}");
    load.goes_on(200).await;
    let mark = relay.mark();
    run(&stack.db, &format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await;
    relay.wait_for_log_after(mark, "streaming").await;
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
    drop(relay);
    drop_role(&stack, &role).await;
}

#[tokio::test]
async fn a_relay_that_finds_no_free_walsender_waits_for_one_and_loses_nothing() {
    let postgres = Postgres::private().set("max_wal_senders", "1").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = super::relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    load.goes_on(200).await;

    // Another takes the place before the relay, which makes a pause, is back; or loses the race, and tries again.
    let mark = relay.mark();
    let database: ConnInfo = stack.db.url().parse().unwrap();
    let hog = eventually("the place is taken", SOON, async || {
        terminate(&stack.db, &["client backend", "walsender"]).await;
        database.connect_replication("hog").await
    })
    .await;
    let line = relay.wait_for_log_after(mark, "53300").await;
    assert!(line.contains("max_wal_senders"), "{line}");
    load.goes_on(200).await;
    let mark = relay.mark();
    drop(hog);
    relay.wait_for_log_after(mark, "streaming").await;
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
}
