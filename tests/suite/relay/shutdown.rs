//! Stopping: what is in flight is finished, what is not is left as it was.

use harness::{Direction::FromServer, Postgres, Proxy, RabbitMq, Relay, SOON, Shutdown, Stack, eventually};

use super::{counts, wait_for_counts};

#[tokio::test]
async fn sigterm_finishes_what_is_in_flight_and_publishes_nothing_twice_afterwards() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 20000) i").await.unwrap();
    consumer.wait_for(500).await;
    assert!(relay.stop().await.success());

    let (pending, sent, failed) = counts(&stack.db).await;
    assert!(pending > 0, "stopped in the middle");
    eventually("the consumer has all that is SENT", SOON, async || {
        let count = consumer.count();
        if count as i64 == sent { Ok(()) } else { Err((count, sent)) }
    })
    .await;
    assert_eq!(failed, 0);

    let _relay = stack.relay().start().await;
    wait_for_counts(&stack.db, (0, 20000, 0), SOON).await;
    consumer.wait_for(20000).await;
    let mut ids = consumer.ids();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), consumer.count()), (20000, 20000));
}

#[tokio::test]
async fn a_terminal_that_closes_drains_the_relay_and_ends_it_no_sooner_if_it_says_so_again() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    relay.hang_up();
    assert!(relay.exited().await.success(), "{}", relay.log_text());

    let stack = Stack::new().await;
    let relay = stuck_in_drain(&stack, "1s").await;
    relay.hang_up();
    assert_eq!(relay.exited().await.code(), Some(EXIT_DRAIN_TIMEOUT), "{}", relay.log_text());
}

#[tokio::test]
async fn a_second_signal_exits_at_once() {
    let stack = Stack::new().await;
    let relay = stuck_in_drain(&stack, "1h").await;
    relay.terminate();
    assert_eq!(relay.exited().await.code(), Some(143));
}

#[tokio::test]
async fn a_drain_that_cannot_finish_ends_at_its_deadline_with_its_own_exit_code() {
    let stack = Stack::new().await;
    let relay = stuck_in_drain(&stack, "300ms").await;
    assert_eq!(relay.exited().await.code(), Some(EXIT_DRAIN_TIMEOUT), "{}", relay.log_text());
    assert_eq!(counts(&stack.db).await, (1, 0, 0));
}

#[tokio::test]
async fn a_database_that_is_lost_during_the_drain_is_no_clean_end() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let relay = stuck_in_drain(&stack, "1h").await;
    postgres.stop(Shutdown::Immediate).await;
    assert_eq!(relay.exited().await.code(), Some(10), "{}", relay.log_text());
}

#[tokio::test]
async fn a_broker_that_is_lost_during_the_drain_is_not_waited_for() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let relay = stack.relay().set("amqp-url", &url).set("shutdown-timeout", "1h").start().await;
    proxy.hold(FromServer);
    stack.db.batch_execute("SELECT outbox.emit('t', '{}'::jsonb)").await.unwrap();
    consumer.wait_for(1).await;
    relay.terminate();
    relay.wait_for_log("draining").await;
    drop(proxy);
    assert!(relay.exited().await.success(), "{}", relay.log_text());
    assert_eq!(counts(&stack.db).await, (1, 0, 0));
}

const EXIT_DRAIN_TIMEOUT: i32 = 30;

/// A relay that was told to stop, with a confirmed event whose verdict cannot be written.
async fn stuck_in_drain(stack: &Stack, timeout: &str) -> Relay {
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("shutdown-timeout", timeout).start().await;
    stack
        .db
        .batch_execute(
            "SET outbox.allow_undumped_changes = on;
             CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN new; END $$;
             CREATE TRIGGER wait BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION wait();
             SELECT outbox.emit('t', '{}'::jsonb)",
        )
        .await
        .unwrap();
    consumer.wait_for(1).await;
    relay.terminate();
    relay.wait_for_log("draining").await;
    relay
}
