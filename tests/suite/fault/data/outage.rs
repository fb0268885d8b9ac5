//! A broker that is away while very much is emitted.
//!
//! With a million events: `EVENTS=1000000 make test T=data::outage`

use std::time::{Duration, Instant};

use harness::{Connection, Postgres, RabbitMq, SOON, Stack, eventually};
use tokio::{sync::watch, task::JoinHandle};

use super::{LONG, assert_memory_was_bounded, count, ledger, resumed::Resumed, size, wait_until_none_is_pending};

/// Events a second, from both emitters together: on two cores shared with broker and suite, one walsender decodes more.
const RATE: f64 = 15_000.0;

/// What the slot may keep of the write-ahead log during an outage, however much is emitted.
const WAL_BYTES: i64 = 64 << 20;

/// One transaction of each of the keys.
async fn emit(db: &Connection, aggregate_type: &str, events: i32) {
    let sql =
        "SELECT outbox.emit('t', jsonb_build_object('n', i), aggregate_type => $1, aggregate_id => (i % 100)::text)
               FROM generate_series(1, $2::int) i";
    db.execute(sql, &[&aggregate_type, &events]).await.unwrap();
}

/// Bytes that the server must keep for the slot: what is not acknowledged, and where decoding would begin again.
async fn kept(db: &Connection, slot: &str) -> [i64; 2] {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::bigint,
                      pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::bigint
               FROM pg_replication_slots WHERE slot_name = $1";
    let row = db.query_one(sql, &[&slot]).await.unwrap();
    [row.get(0), row.get(1)]
}

/// Looks all the time, until told to stop; then says the most that was kept.
///
/// PostgreSQL looks for the place where decoding could begin again at its checkpoints, and every 15 s. That much of the
/// WAL is kept for any slot, so checkpoints are made often here: what is left is the relay's doing.
fn watch_wal(stack: &Stack, stopped: &watch::Receiver<bool>) -> JoinHandle<[i64; 2]> {
    let (url, slot, stopped) = (stack.db.url().to_owned(), stack.db.name().to_owned(), stopped.clone());
    tokio::spawn(async move {
        let (db, operator) = (Connection::open(&url).await, Connection::open(&url).await);
        let watch = async {
            let mut most = [0; 2];
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            while !*stopped.borrow() {
                let now = kept(&db, &slot).await;
                most = [most[0].max(now[0]), most[1].max(now[1])];
                pace.tick().await;
            }
            most
        };
        let checkpoints = async {
            let mut pace = tokio::time::interval(Duration::from_millis(500));
            while !*stopped.borrow() {
                operator.batch_execute("CHECKPOINT").await.unwrap();
                pace.tick().await;
            }
        };
        tokio::join!(watch, checkpoints).0
    })
}

#[tokio::test]
async fn a_long_outage_of_the_broker_keeps_no_wal_and_the_backlog_drains_in_order_beside_new_events() {
    let events = size("EVENTS", 200_000);
    let postgres = Postgres::private().set("fsync", "off"); // it does not crash here
    let (postgres, rabbitmq) = tokio::join!(postgres.start(), RabbitMq::private().start());
    let stack = Stack::on(&postgres, &rabbitmq).await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let queue = consumer.queue().to_owned();
    let relay = stack.relay().set("park-after", "200ms").start().await;
    emit(&stack.db, "before", 1_000).await;
    wait_until_none_is_pending(&stack.db, "true").await;
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    let mut arrived = consumer.ids();
    drop(consumer);

    rabbitmq.kill().await;
    relay.wait_for_log("parked").await;
    let (stop, stopped) = watch::channel(false);
    let watcher = watch_wal(&stack, &stopped);
    let mut rng = harness::seed::rng("outage");
    let start = Instant::now();
    let emitters = ["a", "b"].map(|name| {
        let (mut rng, url) = (fastrand::Rng::with_seed(rng.u64(..)), stack.db.url().to_owned());
        tokio::spawn(async move {
            let db = Connection::open(&url).await;
            let start = Instant::now();
            let each = i32::try_from(events / 2).unwrap();
            let mut left = each;
            while left > 0 {
                let size = left.min([1, 10, 100, 1_000, 10_000][rng.usize(..5)]);
                emit(&db, name, size).await;
                left -= size;
                let due = Duration::from_secs_f64(f64::from(each - left) / (RATE / 2.0));
                tokio::time::sleep_until((start + due).into()).await;
            }
        })
    });
    for emitter in emitters {
        emitter.await.unwrap();
    }
    println!("emitted {events} in {:?}", start.elapsed());
    assert_eq!(count(&stack.db, "status = 'PENDING' AND attempts = 0").await, events);
    let slot = stack.db.name();
    eventually("the slot moves on to the end although nothing is published", SOON, async || {
        match kept(&stack.db, slot).await[0] {
            0..1_000_000 => Ok(()),
            bytes => Err(bytes),
        }
    })
    .await;
    let mark = relay.mark();
    rabbitmq.start().await;
    stop.send(true).unwrap();
    let [unacknowledged, restart] = watcher.await.unwrap();
    println!("kept during the outage, at most: {unacknowledged} bytes unacknowledged, {restart} from restart_lsn");

    // New events of the same keys arrive while the backlog drains.
    let start = Instant::now();
    let resumed = Resumed::on(&stack.vhost.url(), &queue).await;
    let (stop, stopped) = watch::channel(false);
    let watcher = watch_wal(&stack, &stopped);
    let db = stack.db.connect().await;
    let emitter = tokio::spawn(async move {
        let mut more = 0;
        // Now and then, as an application does that has recovered, too.
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        while !*stopped.borrow() {
            emit(&db, "a", 5).await;
            emit(&db, "b", 5).await;
            more += 10;
            pace.tick().await;
        }
        more
    });
    let last_seq: i64 = stack.db.query_one("SELECT max(seq) FROM outbox.events", &[]).await.unwrap().get(0);
    wait_until_none_is_pending(&stack.db, &format!("seq <= {last_seq}")).await;
    let took = start.elapsed();
    println!("drained {events} in {took:?}, {:.0} a second", events as f64 / took.as_secs_f64());
    relay.wait_for_log_within(LONG, mark, "streaming").await;
    stop.send(true).unwrap();
    let more = emitter.await.unwrap();
    let drain = watcher.await.unwrap();
    println!("kept during the drain, at most: {} bytes unacknowledged, {} from restart_lsn", drain[0], drain[1]);

    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, 1_000 + events + more);
    ledger::wait_for_all(&stack.db, || [&arrived[..], &resumed.ids()].concat()).await;
    arrived.extend(resumed.ids());
    ledger::check(&stack.db, &[&arrived], 0).await;
    assert_memory_was_bounded(&relay);
    assert!(unacknowledged < WAL_BYTES && restart < WAL_BYTES, "{unacknowledged} and {restart} bytes were kept");
}
