//! A relay that dies at any moment loses nothing, and the next one takes over.

use std::collections::HashSet;

use harness::{SOON, Stack};
use uuid::Uuid;

use super::{
    order::{NUMBERED, numbers_by_key},
    wait_for_counts,
};

const IN_FLIGHT: usize = 133;

#[tokio::test]
async fn sigkill_in_the_middle_of_a_stream_loses_nothing_and_repeats_at_most_what_had_no_verdict() {
    let stack = Stack::new().await;
    stack.db.batch_execute(NUMBERED).await.unwrap();
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("in-flight", &IN_FLIGHT.to_string()).start().await;
    let emitter = stack.db.connect().await;
    let emit = async {
        let mut ids: Vec<Uuid> = Vec::new();
        for batch in 0..100 {
            let sql = format!("SELECT emit_numbered('key-' || (i + {batch}) % 50) FROM generate_series(1, 50) i");
            ids.extend(emitter.query(&sql, &[]).await.unwrap().iter().map(|row| row.get::<_, Uuid>(0)));
        }
        ids
    };
    let kill = async {
        let mut relay = relay;
        let mut kills = 0;
        for count in [500, 2000, 3500] {
            consumer.wait_for(count).await;
            relay.kill().await;
            kills += 1;
            relay = stack.relay().set("in-flight", &IN_FLIGHT.to_string()).start().await;
        }
        (relay, kills)
    };
    let (ids, (_relay, kills)) = tokio::join!(emit, kill);

    wait_for_counts(&stack.db, (0, ids.len() as i64, 0), SOON).await;
    let deliveries = consumer.wait_for_ids(&ids, SOON).await;
    let distinct: HashSet<Uuid> = deliveries.iter().map(|delivery| delivery.id).collect();
    assert_eq!(distinct, ids.iter().copied().collect(), "the committed ids, and no others");
    let duplicates = deliveries.len() - ids.len();
    println!("{duplicates} duplicates after {kills} kills");
    // Without a verdict in the table: in flight, in the batch being written, and in the one that was filling.
    let unsettled = 3 * IN_FLIGHT;
    assert!(duplicates <= kills * unsettled, "{duplicates} duplicates");
    for (key, numbers) in numbers_by_key(&deliveries) {
        let mut seen = HashSet::new();
        let first_times: Vec<i64> = numbers.into_iter().filter(|n| seen.insert(*n)).collect();
        assert!(first_times.is_sorted(), "{key}: {first_times:?}");
    }
}

#[tokio::test]
async fn a_second_relay_waits_and_takes_over_when_the_first_is_killed() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let first = stack.relay().start().await;
    let second = stack.relay().spawn();
    second.wait_for_log("standby").await;
    stack.db.batch_execute("SELECT outbox.emit('t', '1')").await.unwrap();
    consumer.wait_for(1).await;
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;

    first.kill().await;
    stack.db.batch_execute("SELECT outbox.emit('t', '2')").await.unwrap();
    second.wait_for_log("streaming").await;
    consumer.wait_for(2).await;
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await;
    assert_eq!(consumer.count(), 2);
}
