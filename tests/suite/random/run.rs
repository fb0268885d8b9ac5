//! One seed, from its schedule to the list of what is wrong.

use std::time::{Duration, Instant};

use harness::{Connection, Database, Kafka, Postgres, RabbitMq, eventually};

use super::{
    broker::{Broker, Place},
    checker::{Evidence, Fact, Limits, Queue, Row, check},
    clients::{self, connect},
    faults::Faults,
    program::Kind,
    relays::Relays,
    report::Report,
    schedule::{Ordering, Schedule, WAL_SENDER_TIMEOUT},
};

/// The most that a drain may take: a backlog of some thousand events, and a relay's longest pause of 10 s.
const DRAIN: Duration = Duration::from_secs(60);

/// A relay's memory, whatever happens. It holds 16 MiB of events at most.
const PEAK_MEMORY: u64 = 64 * 1024 * 1024;

/// What the slot may hold back when all is settled: status updates lag, and the server logs its own doings.
const RETAINED_WAL: i64 = 1024 * 1024;

/// Servers that faults may break, of one lane's own.
pub(super) struct Servers {
    postgres: Postgres,
    broker: Broker,
}

impl Servers {
    /// With Kafka, or with RabbitMQ.
    pub(super) async fn start(with_kafka: bool) -> Self {
        // A killed process loses nothing that it wrote: only a machine's crash would, and there is none.
        let postgres = Postgres::private().set("fsync", "off").set("max_prepared_transactions", "20");
        let postgres = postgres.set("wal_sender_timeout", WAL_SENDER_TIMEOUT).start();
        let broker = async {
            if with_kafka {
                Broker::Kafka(Kafka::private().start().await)
            } else {
                Broker::RabbitMq(RabbitMq::private().start().await)
            }
        };
        let (postgres, broker) = tokio::join!(postgres, broker);
        Self { postgres, broker }
    }

    /// Runs one schedule in a database and a part of the broker of its own.
    pub(super) async fn run(&self, schedule: &Schedule) -> Report {
        let start = Instant::now();
        let db = self.postgres.database().await;
        db.batch_execute(clients::TABLES).await.expect("the clients' tables");
        let counters = format!("INSERT INTO counters SELECT generate_series(0, {})", schedule.keys - 1);
        db.batch_execute(&counters).await.expect("the keys' counters");
        let place = self.broker.place(&db, schedule).await;
        let set = |builder: harness::RelayBuilder, (name, value): (&str, String)| builder.set(name, &value);
        let relays = Relays::new(schedule.settings.pairs().into_iter().fold(place.relay(&db), set), schedule.relays);

        let start_of_work = Instant::now();
        let (facts, retained_wal) = tokio::select! {
            () = relays.tend() => unreachable!("it never ends"),
            done = self.work_and_drain(schedule, &db, &place, &relays) => done,
        };
        let worked = start_of_work.elapsed();
        let book = relays.stop().await;
        let connection = connect(db.url()).await;
        let evidence = Evidence {
            facts,
            delivered: place.read().await,
            rows: rows(&connection).await,
            exits: book.exits.clone(),
            peak_memory: book.peak_memory,
            retained_wal,
        };
        let limits = limits(schedule, &evidence, self.broker.repeats());
        let violations = check(&evidence, &limits);
        let whole = start.elapsed();
        let report = Report::new(schedule, &evidence, &limits, violations, book, [worked, whole]);
        if !report.violations.is_empty() {
            report.keep(&evidence, &self.postgres.log(), &self.broker.log());
        }
        report
    }

    /// Returns what is committed, and how much WAL the slot holds back at the end.
    async fn work_and_drain(
        &self,
        schedule: &Schedule,
        database: &Database,
        place: &Place<'_>,
        relays: &Relays,
    ) -> (Vec<Fact>, i64) {
        let (url, name) = (database.url(), database.name());
        let faults = Faults { postgres: &self.postgres, place, db: database, relays, start: Instant::now() };
        let programs = schedule.clients.iter().enumerate();
        let work = programs.map(|(number, program)| clients::work(url, name, number, program));
        let (facts, ()) = tokio::join!(futures_util::future::join_all(work), faults.run(schedule));
        let db = connect(url).await;
        // What is still PENDING after the deadline is a verdict that the checker misses.
        let settled = wait(DRAIN, async || {
            let sql = "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'";
            let pending: i64 = db.query_one(sql, &[]).await.expect("a count").get(0);
            pending == 0
        })
        .await;
        if !settled {
            println!("SEED={}: not drained after {DRAIN:?}; the queues: {}", schedule.seed, place.state().await);
            println!("the relays log:");
            let log = relays.log().await;
            log.iter().skip(log.len().saturating_sub(40)).for_each(|line| println!("  {line}"));
        }
        let mut lag = 0;
        wait(Duration::from_secs(if settled { 15 } else { 0 }), async || {
            lag = retained_wal(&db, name).await;
            lag <= RETAINED_WAL
        })
        .await;
        (facts.into_iter().flatten().collect(), lag)
    }
}

/// Whether it holds before the deadline.
async fn wait(deadline: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    eventually("", Duration::MAX, async || match holds().await {
        true => Ok(true),
        false if start.elapsed() >= deadline => Ok(false),
        false => Err(()),
    })
    .await
}

async fn retained_wal(db: &Connection, slot: &str) -> i64 {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::bigint
               FROM pg_replication_slots WHERE slot_name = $1";
    db.query_opt(sql, &[&slot]).await.expect("a position").map_or(i64::MAX, |row| row.get(0))
}

async fn rows(db: &Connection) -> Vec<Row> {
    let sql = "SELECT id, status::text, attempts, coalesce(last_attempted_at < available_at, false) FROM outbox.events";
    let row =
        |row: tokio_postgres::Row| Row { id: row.get(0), status: row.get(1), attempts: row.get(2), early: row.get(3) };
    db.query(sql, &[]).await.expect("the rows").into_iter().map(row).collect()
}

/// `repeats`: whether the broker may have an event twice, and swap events that are in flight together.
fn limits(schedule: &Schedule, evidence: &Evidence, repeats: bool) -> Limits {
    let settings = &schedule.settings;
    let disruptions = schedule.disruptions() + evidence.exits.iter().filter(|code| [30, 143].contains(*code)).count();
    let unsettled = 3 * settings.in_flight;
    // A missing exchange closes the channel with all that is in flight, and once more if the event itself is repeated.
    let missing = evidence.facts.iter().filter(|fact| fact.kind == Kind::NoExchange).count();
    let closes = if missing > 0 { missing + disruptions } else { 0 };
    Limits {
        duplicates: if repeats { disruptions * unsettled + closes * settings.in_flight } else { 0 },
        ordered: match settings.ordering {
            _ if !repeats => vec![Queue::Open, Queue::Full],
            Ordering::Strict => vec![Queue::Open, Queue::Full],
            // A killed broker may keep the later of two messages that it has not confirmed, and lose the earlier.
            Ordering::Pipelined if schedule.kills_broker() => vec![],
            // A nack between two events in flight can swap them.
            Ordering::Pipelined => vec![Queue::Open],
        },
        peak_memory: PEAK_MEMORY,
        retained_wal: RETAINED_WAL,
        // Drained; database or broker away at the start; the drain took too long; killed; told twice to end.
        exits: vec![0, 10, 20, 30, 137, 143],
    }
}
