//! Several relays on one slot: one works, the others wait to take over.

use std::time::{Duration, SystemTime};

use harness::{Connection, Consumer, Delivery, Postgres, RabbitMq, Relay, SOON, Stack, eventually, seed};
use uuid::Uuid;

use super::{emit, repeated};

const IN_FLIGHT: usize = 133;

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
        let relay = stack.relay().set("in-flight", &IN_FLIGHT.to_string());
        (relay.set("application-name", &name).spawn(), name)
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
    assert!(repeated <= KILLS * 3 * IN_FLIGHT, "{repeated} repeated");
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

#[tokio::test]
async fn several_that_start_at_once_on_an_empty_database_come_to_one_that_works_and_others_that_wait() {
    const RELAYS: usize = 4;
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relays: Vec<Relay> = (0..RELAYS).map(|_| stack.relay().spawn()).collect();
    eventually("one streams, the others wait", SOON, async || {
        let state = |state: &str| relays.iter().filter(|relay| relay.log_text().contains(state)).count();
        match (state("state=streaming"), state("state=standby")) {
            (1, standby) if standby == RELAYS - 1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let walsenders =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'walsender'";
    let walsenders: i64 = stack.db.query_one(walsenders, &[]).await.unwrap().get(0);
    assert_eq!(walsenders, 1, "one that waits takes no walsender");
    let ids = emit(&stack.db, 100, 10).await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

/// An advisory lock is anybody's to take, also by the name that an earlier version of the relay took.
#[tokio::test]
async fn no_lock_that_a_role_without_rights_can_hold_keeps_a_relay_from_its_work() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = format!("nobody_{}", stack.db.name());
    stack.db.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await.unwrap();
    let nobody = stack.db.connect_as(&role).await;
    let lock = format!("SELECT pg_advisory_lock(hashtextextended('outbox-relay {}', 0))", stack.db.name());
    nobody.batch_execute(&lock).await.unwrap();

    let _relay = stack.relay().start().await;
    let ids = emit(&stack.db, 10, 10).await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
    drop(nobody);
    let gone = format!("DROP ROLE {role}");
    eventually("the role is gone", SOON, async || stack.db.batch_execute(&gone).await.map_err(|e| e.to_string())).await;
}

#[tokio::test]
async fn a_slot_that_another_program_reads_is_waited_for_and_that_program_named() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    assert!(stack.relay().start().await.stop().await.success());
    let database: pg_replication::ConnInfo = stack.db.url().parse().unwrap();
    let session = database.connect_replication("a reader").await.unwrap();
    let pid = session.pid();
    let stream = session.start(stack.db.name(), "outbox", pg_replication::Lsn(0)).await.unwrap();
    let ids = emit(&stack.db, 10, 10).await;

    let relay = stack.relay().spawn();
    let line = relay.wait_for_log("state=standby").await;
    assert!(line.contains(&format!("pid={pid}")) && line.contains("a reader"), "{line}");
    stream.stop().await;
    relay.wait_for_log("streaming").await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

/// The server's log is not to fill up with what a waiting relay tries.
#[tokio::test]
async fn one_that_waits_writes_no_errors_into_the_servers_log() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let _working = stack.relay().start().await;
    let waiting = stack.relay().spawn();
    waiting.wait_for_log("state=standby").await;
    // It looks, and finds a relay at work, again and again.
    let looked = "SELECT query_start::text FROM pg_stat_activity WHERE query LIKE '%pg_replication_slots%' AND pid <> pg_backend_pid()
                  AND application_name = 'outbox-relay' ORDER BY backend_start DESC LIMIT 1"; // the one that waits
    let mut last = String::new();
    for _ in 0..5 {
        last = eventually("it looks again", SOON, async || {
            let row = stack.db.query_opt(looked, &[]).await.unwrap();
            row.map(|row| row.get::<_, String>(0)).filter(|look| *look != last).ok_or("no look")
        })
        .await;
    }
    assert!(!postgres.log().contains("is active for PID"), "{}", postgres.log());
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
