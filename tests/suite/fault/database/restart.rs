//! The server stops in the middle of everything and comes back.

use harness::{Postgres, RabbitMq, Shutdown, Stack};

use super::{Load, REPEATED, check, lost_sessions, relay};

#[tokio::test]
async fn a_server_that_stops_at_once_or_is_killed_under_load_loses_nothing() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    for kill in [false, true] {
        load.goes_on(500).await;
        let mark = relay.mark();
        if kill {
            postgres.kill().await;
        } else {
            postgres.stop(Shutdown::Immediate).await;
        }
        postgres.start().await;
        relay.wait_for_log_after(mark, "streaming").await;
    }
    load.goes_on(500).await;
    let committed = load.stop().await;
    let db = stack.db.connect().await;
    check(&db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
}

#[tokio::test]
async fn a_server_that_is_frozen_for_a_while_is_waited_for() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    for _ in 0..3 {
        load.goes_on(300).await;
        postgres.pause();
        // What a fault lasts is time: long enough for everything in flight to be confirmed meanwhile.
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        postgres.resume();
    }
    load.goes_on(300).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
}
