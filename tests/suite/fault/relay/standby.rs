//! Several relays on one slot: one works, the others wait to take over.

use std::time::{Duration, SystemTime};

use harness::{Connection, Consumer, Delivery, Relay, SOON, Stack, eventually, seed};
use uuid::Uuid;

use super::{emit, repeated};

const IN_FLIGHT: usize = 200;
const SETTLE_BATCH: usize = 100;

#[tokio::test]
async fn the_second_of_two_relays_takes_over_when_the_first_is_killed_time_and_again() {
    const ROUNDS: usize = 8;
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let mut working = stack.relay().start().await;
    let mut ids = Vec::new();
    let mut gaps = Vec::new();
    for _ in 0..ROUNDS {
        let waiting = stack.relay().spawn();
        waiting.wait_for_log("standby").await;
        ids.extend(emit(&stack.db, 1, 1).await);
        consumer.wait_for_ids(&ids, SOON).await;

        let killed = SystemTime::now();
        working.kill().await;
        let after = emit(&stack.db, 1, 1).await;
        let deliveries = consumer.wait_for_ids(&after, SOON).await;
        let first = deliveries.iter().find(|delivery| delivery.id == after[0]).unwrap();
        gaps.push(first.since(killed));
        ids.extend(after);
        working = waiting;
    }
    gaps.sort_unstable();
    println!("from the kill to the next relay's first message: {gaps:?}");
    let repeated = repeated(&stack, &consumer, &ids).await;
    assert!(repeated <= ROUNDS, "{repeated} repeated: only an event whose verdict was not written yet may be");
}

#[tokio::test]
async fn three_relays_of_which_any_is_killed_at_any_time_lose_nothing_and_never_work_at_once() {
    const KILLS: usize = 9;
    const EVENTS: usize = 12_000;
    let mut rng = seed::rng("three_relays");
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let emitter = stack.db.connect().await;
    let mut started = 0;
    // Every process has a name of its own, and puts it into its messages.
    let mut another = || {
        started += 1;
        let name = format!("relay-{started}");
        let relay =
            stack.relay().set("in-flight", &IN_FLIGHT.to_string()).set("settle-batch", &SETTLE_BATCH.to_string());
        (relay.set("app-id", &name).spawn(), name)
    };
    let mut relays: [(Relay, String); 3] = std::array::from_fn(|_| another());
    let kill = async {
        for kill in 1..=KILLS {
            consumer.wait_for(kill * EVENTS / (KILLS + 1)).await;
            // Every other time the one at work; otherwise any, in the middle of its takeover or of its start, too.
            let at_work = consumer.deliveries().last().map(published_by);
            let victim = match relays.iter().position(|(_, name)| Some(name) == at_work.as_ref()) {
                Some(at_work) if kill % 2 == 1 => at_work,
                _ => rng.usize(0..relays.len()),
            };
            relays[victim].0.kill().await;
            relays[victim] = another();
        }
    };
    let (ids, ()) = tokio::join!(emit_steadily(&emitter, &consumer, EVENTS), kill);

    let repeated = repeated(&stack, &consumer, &ids).await;
    println!("{repeated} repeated after {KILLS} kills");
    assert!(repeated <= KILLS * (IN_FLIGHT + 2 * SETTLE_BATCH), "{repeated} repeated");
    let mut worked: Vec<String> = Vec::new();
    for delivery in consumer.deliveries() {
        let relay = published_by(&delivery);
        if worked.last() != Some(&relay) {
            assert!(!worked.contains(&relay), "{relay} published again after another had: {worked:?}");
            worked.push(relay);
        }
    }
    println!("they worked in turn: {worked:?}");
    assert!(worked.len() > 1, "none of the kills met the one at work");
}

fn published_by(delivery: &Delivery) -> String {
    delivery.properties.app_id().as_ref().unwrap().to_string()
}

/// Emits in many transactions, not much faster than they are delivered, so that all kills fall into the load.
async fn emit_steadily(db: &Connection, consumer: &Consumer, count: usize) -> Vec<Uuid> {
    const BATCH: usize = 100;
    const AHEAD: usize = 2000;
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.extend(emit(db, BATCH, 50).await);
        eventually("delivery keeps up", Duration::from_secs(60), async || match consumer.count() {
            arrived if arrived + AHEAD >= ids.len() => Ok(()),
            arrived => Err(arrived),
        })
        .await;
    }
    ids
}
