//! `max_rate`: how many events leave in a second.

use std::time::{Duration, Instant};

use harness::{SOON, Stack, eventually};

use super::{order::numbers_by_key, slot_lag, wait_for_counts};

#[tokio::test]
async fn with_max_rate_a_backlog_leaves_no_faster_than_that_in_order_and_the_slot_moves_on_meanwhile() {
    const EVENTS: i64 = 1200;
    const RATE: i64 = 200;
    let stack = Stack::new().await;
    stack.db.batch_execute(super::order::NUMBERED).await.unwrap();
    let consumer = stack.consumer("#").await;
    let relay = stack
        .relay()
        .set("max-rate", &RATE.to_string())
        .set("max-bytes", "300KiB")
        .set("in-flight", "50")
        .start()
        .await;
    let began = Instant::now();
    // More than memory has room for, and committed at once: streamed, it would hold the slot back.
    stack
        .db
        .batch_execute(&format!("SELECT emit_numbered('key-' || n % 50) FROM generate_series(1, {EVENTS}) AS n"))
        .await
        .unwrap();
    relay.wait_for_log("more is emitted than max_rate lets leave").await;
    eventually("the slot moves on while events wait", SOON, async || {
        let pending = "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'";
        let lag = slot_lag(&stack).await;
        match stack.db.query_one(pending, &[]).await.unwrap().get::<_, i64>(0) {
            0 => panic!("all have left after {:?}, and the slot was {lag} bytes behind till then", began.elapsed()),
            _ if lag < 8192 => Ok(()),
            waiting => Err((waiting, lag)),
        }
    })
    .await;
    wait_for_counts(&stack.db, (0, EVENTS, 0), 4 * SOON).await;
    // All but a burst of a tenth of a second took their time.
    let least = Duration::from_secs_f64((EVENTS as f64 - RATE as f64 / 10.0 - 2.0) / RATE as f64);
    assert!(began.elapsed() >= least, "{EVENTS} events left in {:?}", began.elapsed());
    let deliveries = consumer.wait_for(EVENTS as usize).await;
    assert_eq!(consumer.count(), EVENTS as usize, "none twice");
    for (key, numbers) in numbers_by_key(&deliveries) {
        assert!(numbers.is_sorted(), "{key} out of order");
    }
}
