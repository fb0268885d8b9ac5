//! SIGSTOP: the relay stands still, and its connections stay open.

use harness::{Direction::FromServer, Postgres, Proxy, RabbitMq, SOON, Stack, eventually};

use super::{emit, repeated};

#[tokio::test]
async fn frozen_for_longer_than_the_server_waits_it_connects_again_and_loses_nothing() {
    let postgres = Postgres::private().set("wal_sender_timeout", "2s").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    let mut ids = emit(&stack.db, 2000, 50).await;
    consumer.wait_for(500).await;
    relay.pause();
    ids.extend(emit(&stack.db, 2000, 50).await);
    wait_until_inactive(&stack).await;
    let mark = relay.mark();
    relay.resume();
    relay.wait_for_log_after(mark, "connecting again").await;
    relay.wait_for_log_after(mark, "streaming").await;
    let repeated = repeated(&stack, &consumer, &ids).await;
    println!("{repeated} repeated");
    assert!(repeated <= 500 + 2 * 1000, "{repeated} repeated");
}

#[tokio::test]
async fn frozen_it_is_replaced_and_when_it_wakes_publishes_nothing_of_what_is_another_relays_now() {
    let postgres = Postgres::private().set("wal_sender_timeout", "2s").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let through_proxy = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port()));
    let first = through_proxy.set("in-flight", "1").start().await;
    let second = stack.relay().spawn();
    second.wait_for_log("standby").await;
    // One event is out and its confirm is not back: the first relay has all the others in memory, about to leave.
    proxy.hold(FromServer);
    let mut ids = emit(&stack.db, 500, 50).await;
    consumer.wait_for(1).await;
    first.pause();

    second.wait_for_log("streaming").await;
    consumer.wait_for(1 + ids.len()).await;
    let mark = first.mark();
    proxy.release(FromServer);
    eventually("the confirm waits for the first relay", SOON, async || match proxy.held(FromServer) {
        0 => Ok(()),
        held => Err(held),
    })
    .await;
    first.resume();
    first.wait_for_log_after(mark, "standby").await;
    ids.extend(emit(&stack.db, 500, 50).await);
    assert_eq!(repeated(&stack, &consumer, &ids).await, 1, "the one that was out when it froze");

    // And it is as good as new.
    second.kill().await;
    ids.extend(emit(&stack.db, 500, 50).await);
    assert_eq!(repeated(&stack, &consumer, &ids).await, 1, "no more than before");
}

/// More is to be sent to it than the sockets hold, so that its walsender is stuck sending.
#[tokio::test]
async fn frozen_in_the_middle_of_a_large_transaction_it_is_replaced_too() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let settings = || stack.relay().set("takeover-after", "2s").set("in-flight", "1");
    let first = settings().start().await;
    let second = settings().spawn();
    second.wait_for_log("state=standby").await;
    let before = emit(&stack.db, 1, 1).await;
    consumer.wait_for_ids(&before, SOON).await;
    first.pause();
    let large =
        "SELECT outbox.emit('large', jsonb_build_object('body', repeat('x', 500000))) FROM generate_series(1, 60)";
    stack.db.batch_execute(large).await.unwrap();
    second.wait_for_log("streaming").await;
    let sent = "SELECT count(*) FROM outbox.events WHERE topic = 'large' AND status = 'SENT'";
    eventually("the other relay delivers them", SOON, async || {
        let sent: i64 = stack.db.query_one(sent, &[]).await.unwrap().get(0);
        if sent == 60 { Ok(()) } else { Err(sent) }
    })
    .await;
}

/// It would keep rows from vacuum for as long as it stands still.
#[tokio::test]
async fn one_that_stands_still_in_the_middle_of_a_pass_keeps_no_transaction_open() {
    let stack = Stack::new().await;
    let proxy = Proxy::to(stack.db.port()).await;
    let relay = stack.relay().set("database-url", &stack.db.url_at(proxy.port())).set("takeover-after", "1s");
    let _relay = relay.set("check-interval", "100ms").start().await;
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-relay'
               AND state LIKE 'idle in transaction%'";
    let open = async || stack.db.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    eventually("answers fail to reach it in the middle of a pass", SOON, async || {
        proxy.hold(FromServer);
        for _ in 0..10 {
            if open().await == 1 {
                return Ok(());
            }
        }
        proxy.release(FromServer);
        Err("none")
    })
    .await;
    eventually("the server ends the pass", SOON, async || match open().await {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
}

async fn wait_until_inactive(stack: &Stack) {
    let sql = "SELECT active FROM pg_replication_slots WHERE slot_name = $1";
    eventually("the server has given up the frozen relay", SOON, async || {
        let active: bool = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
        if active { Err("active") } else { Ok(()) }
    })
    .await;
}
