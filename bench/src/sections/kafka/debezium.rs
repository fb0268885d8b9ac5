//! Debezium Server from its own outbox table to the same Kafka.

use std::{path::Path, time::Instant};

use harness::{Database, Debezium, DebeziumSink, eventually};

use super::{
    SECTION, Setup,
    latency::{self, arrivals},
    relay::BACKLOG,
};
use crate::{
    bench::{LONG, quiet, rate},
    cpu::{self, us_per_event},
    emitted::Emitted,
    report::Report,
    sections::latency::emit,
};

const TABLE: &str = "CREATE TABLE outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
    aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb NOT NULL)";
/// A thousand rows with payloads of 200 B.
const INSERT: &str = "INSERT INTO outboxevent
    SELECT gen_random_uuid(), 'order', (i % 100000)::text, 'OrderMoved', json_build_object('n', i, 'text', $2::text)
    FROM generate_series($1::bigint, $1::bigint + 999) AS i";
/// As the outbox's events of the same measurement.
const INSERT_ONE: &str = "INSERT INTO outboxevent VALUES (gen_random_uuid(), 'order', ($1::int % 1000)::text,
    'OrderMoved', json_build_object('order', $1::int, 'text', repeat('x', 170))) RETURNING id";
/// Rows that go through it before it is measured, so that Java has compiled what is used most.
const WARM_UP: u64 = 50_000;
const EVENTS: u64 = 100_000;
/// In one transaction.
const BATCH: u64 = 1000;
const RATE: u64 = 1000;

/// Debezium Server in this folder.
pub(super) struct Peer<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) home: &'a Path,
}

impl Peer<'_> {
    pub(super) async fn measure(&self, report: &mut Report) {
        let (backlog, live) = ("Debezium Server, backlog, 200 B", format!("Debezium Server, {RATE}/s"));
        let bench = self.setup.bench;
        if !bench.wants(backlog) && !bench.wants(&live) {
            return;
        }
        let (db, topic) = (bench.postgres.database().await, self.setup.topic().await);
        db.batch_execute(TABLE).await.expect("its table");
        let debezium = self.start(&db, &topic).await;
        let warm_up = bench.amount(WARM_UP).next_multiple_of(BATCH);
        self.insert(&db, warm_up).await;
        self.wait_for(&debezium, &topic, warm_up).await;
        if bench.wants(backlog) {
            self.backlog(report, backlog, &db, &debezium, &topic).await;
        }
        if bench.wants(&live) {
            self.latency(report, &live, &db, &topic).await;
        }
        self.setup.kafka.delete_topic(&topic).await;
    }

    async fn start(&self, db: &Database, topic: &str) -> Debezium {
        let settings = [
            ("debezium.transforms.outbox.route.topic.replacement", topic),
            ("debezium.transforms.outbox.table.expand.json.payload", "false"),
            ("debezium.format.key", "simplestring"),
            ("debezium.format.value", "simplestring"),
        ];
        Debezium::start(self.home, db, DebeziumSink::Kafka(&self.setup.kafka), &settings).await
    }

    async fn insert(&self, db: &Database, events: u64) {
        let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(176).collect();
        for first in (0..events).step_by(usize::try_from(BATCH).expect("small")) {
            db.execute(INSERT, &[&first.cast_signed(), &text]).await.expect("rows");
        }
    }

    /// Waits until so many records are in the topic.
    async fn wait_for(&self, debezium: &Debezium, topic: &str, count: u64) {
        eventually("Debezium Server has published everything", LONG, async || {
            let published = self.setup.kafka.count(topic).await;
            if published >= count { Ok(()) } else { Err((published, debezium.last_words())) }
        })
        .await;
    }

    /// Rows per second. It is frozen while the rows are inserted; time is counted from the moment at which it goes on,
    /// until the last row is a record.
    async fn backlog(&self, report: &mut Report, case: &str, db: &Database, debezium: &Debezium, topic: &str) {
        let (bench, kafka) = (self.setup.bench, &self.setup.kafka);
        let (events, before) = (bench.amount(EVENTS).next_multiple_of(BATCH), kafka.count(topic).await);
        debezium.pause();
        self.insert(db, events).await;
        quiet(db).await;
        let (own, broker) = (debezium.pid(), kafka.node(1).pid());
        let used = (cpu::used_by(own), cpu::used_by(broker));
        let start = Instant::now();
        debezium.resume();
        self.wait_for(debezium, topic, before + events).await;
        let rate = rate(events, start.elapsed());
        let own = us_per_event(cpu::used_by(own).saturating_sub(used.0), events);
        let broker = us_per_event(cpu::used_by(broker).saturating_sub(used.1), events);
        report.add(SECTION, case, "rate", "/s", rate);
        report.add(SECTION, case, "Debezium CPU", "µs", own);
        report.add(SECTION, case, "broker CPU", "µs", broker);
        println!("  {case}: {events} events at {rate:.0}/s; µs an event: Debezium Server {own:.1}, broker {broker:.1}");
        if let Some(ours) = report.latest(SECTION, BACKLOG, "rate") {
            report.add(SECTION, BACKLOG, "of Debezium Server", "×", ours / rate);
        }
    }

    async fn latency(&self, report: &mut Report, case: &str, db: &Database, topic: &str) {
        let arrivals = arrivals(self.setup, topic).await;
        let emitted = emit(self.setup.bench, db, INSERT_ONE, RATE, Emitted::default()).await;
        let percentiles = arrivals.compare(&emitted);
        percentiles.add(report, SECTION, case);
        let ours = latency::case(RATE);
        if let Some(p99) = report.latest(SECTION, &ours, "p99") {
            report.add(SECTION, &ours, "p99 of Debezium Server's", "×", p99 / percentiles.p99);
        }
    }
}
