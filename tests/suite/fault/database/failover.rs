//! The primary is gone for good, and its standby takes over. Before PostgreSQL 17 a standby has no logical slot.

use harness::{Connection, Postgres, RabbitMq, SOON, Shutdown, Stack, eventually};

use super::{Load, REPEATED, check, emit, lost_sessions, number, relay, run, wait_until, wait_until_sent};

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

#[tokio::test]
async fn a_promoted_standby_that_has_copied_the_slot_goes_on_with_it_and_an_older_server_says_that_it_cannot() {
    let first = Postgres::private().start().await;
    let stack = Stack::on(&first, RabbitMq::shared().await).await;
    if number(&stack.db, "current_setting('server_version_num')").await < 170_000 {
        let (status, log) = relay(&stack).set("failover-slot", "true").finish().await;
        assert_eq!(status.code(), Some(17), "{log}");
        assert!(log.contains("failover_slot needs PostgreSQL 17") && log.contains("no event is lost"), "{log}");
        return;
    }
    // A slot of an earlier time is one that standbys copy from now on.
    let (status, log) = relay(&stack).arguments(&["init"]).finish().await;
    assert!(status.success(), "{log}");
    assert_eq!(number(&stack.db, "(SELECT failover::int FROM pg_replication_slots)").await, 0);

    let second = first.standby_with_slots().await;
    // What the relay publishes the standby has, so that no verdict is lost with the primary.
    for sql in [
        "ALTER SYSTEM SET synchronized_standby_slots = 'standby'",
        "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
        "SELECT pg_reload_conf()",
    ] {
        run(&stack.db, sql).await;
    }
    let sync = "EXISTS (SELECT FROM pg_stat_replication WHERE application_name = 'standby' AND sync_state = 'sync')";
    wait_until(&stack.db, "the standby is synchronous", sync).await;
    let consumer = stack.consumer("#").await;
    let url = url_of_both(&first, &second, stack.db.name());
    let relay = relay(&stack).set("failover-slot", "true").set("database-url", &url).start().await;
    let copied = "(SELECT failover::int FROM pg_replication_slots WHERE slot_type = 'logical')";
    assert_eq!(number(&stack.db, copied).await, 1);

    let mut committed = Vec::new();
    let standby = Connection::open(&second.url("postgres")).await;
    eventually("the standby has a copy of the slot that outlives the primary", SOON, async || {
        committed.push(emit(&stack.db, "k", committed.len() as i64).await);
        run(&stack.db, "CHECKPOINT").await; // notes which transactions run, so that the slot moves on
        let ready = "(SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary)";
        if number(&standby, ready).await == 1 { Ok(()) } else { Err("none yet") }
    })
    .await;
    wait_until_sent(&stack.db, committed.len() as i64).await;

    let mark = relay.mark();
    first.kill().await;
    second.promote().await;
    let db = Connection::open(&second.url(stack.db.name())).await;
    run(&db, "ALTER SYSTEM RESET synchronized_standby_slots").await;
    run(&db, "SELECT pg_reload_conf()").await;
    for _ in 0..100 {
        committed.push(emit(&db, "k", committed.len() as i64).await);
    }
    relay.wait_for_log_after(mark, "state=streaming").await;
    check(&db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
    let log = relay.log_text();
    assert!(!log.contains("created the replication slot") && !log.contains("creating it again"), "{log}");
    assert_eq!(number(&db, "(SELECT count(*) FROM pg_replication_slots WHERE synced AND active)").await, 1);
}

#[tokio::test]
async fn events_wait_for_a_standby_that_failover_slots_wait_for_and_the_relay_says_so() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    if number(&stack.db, "current_setting('server_version_num')").await < 170_000 {
        return;
    }
    run(&stack.db, "SELECT pg_create_physical_replication_slot('standby', true)").await;
    run(&stack.db, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'").await;
    run(&stack.db, "ALTER SYSTEM SET max_slot_wal_keep_size = '320MB'").await;
    run(&stack.db, "SELECT pg_reload_conf()").await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("failover-slot", "true").spawn();
    relay.wait_for_log("state=streaming").await;
    let id = emit(&stack.db, "k", 0).await;
    for _ in 0..12 {
        run(&stack.db, "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()").await;
    }
    let line = relay.wait_for_log("the slot keeps much of the WAL").await;
    assert!(line.contains("a standby that synchronized_standby_slots names"), "{line}");
    assert_eq!(number(&stack.db, "(SELECT count(*) FROM outbox.events WHERE status = 'PENDING')").await, 1);
    run(&stack.db, "ALTER SYSTEM RESET synchronized_standby_slots").await;
    run(&stack.db, "SELECT pg_reload_conf()").await;
    wait_until_sent(&stack.db, 1).await;
    consumer.wait_for(1).await;
    assert_eq!(consumer.ids(), [id]);
}
