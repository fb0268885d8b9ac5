//! A server that is away at the start is waited for; one that refuses ends it.

use harness::{Postgres, Proxy, RabbitMq, RelayBuilder, SOON, Stack, eventually};
use serde_json::json;

use super::{emit, slot_lag, wait_for_counts};

/// A relay to the stack's broker through a proxy that lets nobody through.
async fn behind_a_closed_proxy(stack: &Stack) -> (Proxy, RelayBuilder) {
    let proxy = Proxy::to(stack.vhost.port()).await;
    proxy.refuse();
    let relay = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port()));
    (proxy, relay.set("park-after", "100ms"))
}

#[tokio::test]
async fn a_broker_that_is_away_at_the_start_is_waited_for_while_the_slot_moves_on() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = behind_a_closed_proxy(&stack).await;
    let relay = relay.spawn();
    let line = relay.wait_for_log("no connection to the broker").await;
    for part in [&format!("127.0.0.1:{}", proxy.port()), "tries=1", "for="] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    relay.wait_for_log("state=parked").await;
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 20000) i").await.unwrap();
    eventually("the slot moves on", SOON, async || match slot_lag(&stack).await {
        0..1_000_000 => Ok(()),
        lag => Err(lag),
    })
    .await;

    proxy.accept();
    let line = relay.wait_for_log("connected to the broker").await;
    assert!(line.contains(&format!("host=\"127.0.0.1:{}\"", proxy.port())) && line.contains("away="), "{line}");
    wait_for_counts(&stack.db, (0, 20000, 0), SOON).await;
    consumer.wait_for(20000).await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn the_exchange_is_declared_at_the_first_connection_however_late_that_is() {
    let stack = Stack::new().await;
    let (proxy, relay) = behind_a_closed_proxy(&stack).await;
    let relay = relay.spawn();
    relay.wait_for_log("state=connected").await;
    // A session of the database comes and goes before the broker is there.
    let mark = relay.mark();
    let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1";
    stack.db.execute(end, &[&stack.db.name()]).await.unwrap();
    relay.wait_for_log_after(mark, "state=connected").await;
    proxy.accept();
    relay.wait_for_log("connected to the broker").await;
    let exchange = stack.vhost.api("GET", &format!("/api/exchanges/{}/outbox", stack.vhost.name()), None).await;
    assert_eq!((&exchange["type"], &exchange["durable"]), (&json!("topic"), &json!(true)));
}

#[tokio::test]
async fn a_broker_that_refuses_when_it_is_back_ends_a_start_that_waited_for_it() {
    let stack = Stack::new().await;
    let (proxy, relay) = behind_a_closed_proxy(&stack).await;
    let url = stack.vhost.url_at(proxy.port()).replace(stack.vhost.name(), "nowhere");
    let relay = relay.set("amqp-url", &url).spawn();
    relay.wait_for_log("state=connected").await;
    proxy.accept();
    assert_eq!(relay.exited().await.code(), Some(21), "{}", relay.log_text());
    let log = relay.log_text();
    assert!(log.lines().last().unwrap().contains("vhost nowhere not found"), "{log}");
}

#[tokio::test]
async fn a_broker_that_refuses_ends_the_start_before_there_is_a_slot() {
    let stack = Stack::new().await;
    let (status, log) = stack.relay().set("amqp-url", &stack.vhost.url_as("guest", "secret")).finish().await;
    assert_eq!(status.code(), Some(21), "{log}");
    let sql = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1";
    let slots: i64 = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
    assert_eq!(slots, 0, "it would hold back the WAL of a database without a relay");
}

#[tokio::test]
async fn a_broker_without_room_for_one_more_connection_is_waited_for() {
    let stack = Stack::new().await;
    let limit = format!("/api/vhost-limits/{}/max-connections", stack.vhost.name());
    stack.vhost.api("PUT", &limit, Some(&json!({ "value": 0 }))).await;
    let relay = stack.relay().spawn();
    relay.wait_for_log("connection limit (0) is reached").await;
    relay.wait_for_log("state=connected").await;
    stack.vhost.api("DELETE", &limit, None).await;
    relay.wait_for_log("connected to the broker").await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_vhost_that_is_down_is_waited_for() {
    let node = RabbitMq::shared().await;
    let stack = Stack::new().await;
    let vhost = stack.vhost.name();
    node.ctl(&["eval", &format!("rabbit_vhost_sup_sup:stop_and_delete_vhost(<<\"{vhost}\">>).")]).await;
    let relay = stack.relay().spawn();
    relay.wait_for_log("is down").await;
    node.ctl(&["restart_vhost", "--vhost", vhost]).await;
    relay.wait_for_log("connected to the broker").await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_database_that_is_away_at_the_start_is_waited_for() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let id = emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    postgres.stop(harness::Shutdown::Immediate).await;
    let relay = stack.relay().spawn();
    relay.wait_for_log("connected to the broker").await;
    let line = relay.wait_for_log("no connection to the database").await;
    for part in ["127.0.0.1", "Connection refused", "tries=1", "for="] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    relay.wait_for_log("tries=4").await;
    assert!(!relay.log_text().contains("tries=3"), "fewer and fewer lines");
    postgres.start().await;
    relay.wait_for_log("state=streaming").await;
    consumer.wait_for_ids(&[id], SOON).await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_database_without_room_for_one_more_connection_is_waited_for() {
    let stack = Stack::new().await;
    let role = format!("role_{}", stack.db.name());
    let make = format!(
        "CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'secret' CONNECTION LIMIT 0; SELECT outbox.grant_relay('{role}')"
    );
    stack.db.batch_execute(&make).await.unwrap();
    let relay = stack.relay().set("database-url", &stack.db.url_as(&role)).spawn();
    relay.wait_for_log("too many connections").await;
    stack.db.batch_execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 10")).await.unwrap();
    relay.wait_for_log("state=streaming").await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_database_that_refuses_when_it_is_back_ends_a_start_that_waited_for_it() {
    let stack = Stack::new().await;
    let port: i32 = stack.db.query_one("SELECT inet_server_port()", &[]).await.unwrap().get(0);
    let proxy = Proxy::to(u16::try_from(port).unwrap()).await;
    proxy.refuse();
    let url = stack.db.url().replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let relay = stack.relay().set("database-url", &url.replace(stack.db.name(), "nowhere")).spawn();
    relay.wait_for_log("no connection to the database").await;
    proxy.accept();
    assert_eq!(relay.exited().await.code(), Some(12), "{}", relay.log_text());
}

#[tokio::test]
async fn a_start_that_waits_for_both_servers_stops_at_once_when_it_is_told_to() {
    let stack = Stack::new().await;
    let (_proxy, relay) = behind_a_closed_proxy(&stack).await;
    let relay = relay.set("database-url", "postgres://u:secret@127.0.0.1:1/d").spawn();
    relay.wait_for_log("no connection to the broker").await;
    relay.wait_for_log("no connection to the database").await;
    assert_eq!(relay.stop().await.code(), Some(0));
}
