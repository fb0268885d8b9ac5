//! The primary is gone for good, and its standby takes over. A standby has no logical slot.

use harness::{Connection, Postgres, RabbitMq, Shutdown, Stack};

use super::{Load, REPEATED, check, emit, lost_sessions, relay, run, wait_until};

/// A `DATABASE_URL` that finds the primary wherever it is.
fn url_of_both(one: &Postgres, other: &Postgres, database: &str) -> String {
    let (one, other) = (one.port(), other.port());
    format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/{database}?target_session_attrs=read-write")
}

#[tokio::test]
async fn a_promoted_standby_without_a_slot_takes_over_and_the_old_primary_may_come_back_as_a_standby() {
    let first = Postgres::private().start().await;
    let stack = Stack::on(&first, RabbitMq::shared().await).await;
    let second = first.standby().await;
    // A verdict is then not lost with the primary, and so not repeated.
    let synchronous = "ALTER SYSTEM SET synchronous_standby_names = 'standby'";
    run(&stack.db, synchronous).await;
    run(&stack.db, "SELECT pg_reload_conf()").await;
    let sync = "EXISTS (SELECT FROM pg_stat_replication WHERE application_name = 'standby' AND sync_state = 'sync')";
    wait_until(&stack.db, "the standby is synchronous", sync).await;
    let consumer = stack.consumer("#").await;
    let url = url_of_both(&first, &second, stack.db.name());
    let relay = relay(&stack).set("database-url", &url).start().await;

    // No client commits in the moment of the failover: what the standby does not have yet may have been published.
    let load = Load::start(&url);
    load.goes_on(300).await;
    let mut committed = load.stop().await;
    let mut ids = Vec::new();
    for n in 0..500 {
        ids.push(emit(&stack.db, &format!("key {}", n % 50), n).await);
    }
    committed.extend(ids);
    let mark = relay.mark();
    first.kill().await;
    second.promote().await;
    let load = Load::start(&url);
    relay.wait_for_log_after(mark, "streaming").await;
    load.goes_on(300).await;

    // Both the clients and the relay must tell them apart by what they are, not by their place in the URL.
    first.follow(&second).await;
    let db = Connection::open(&second.url(stack.db.name())).await;
    let mark = relay.mark();
    super::terminate(&db, &["client backend", "walsender"]).await;
    relay.wait_for_log_after(mark, "streaming").await;
    load.goes_on(300).await;
    committed.extend(load.stop().await);
    check(&db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
    first.stop(Shutdown::Fast).await;
}
