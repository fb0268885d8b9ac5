//! One run: a fresh database and queue, from the first event until every row is `SENT`.

use std::time::{Duration, Instant};

use harness::{Relay, RelayBuilder, Stack, eventually};

use crate::{
    bench::{Bench, LONG, quiet, rate},
    broker::{Consumer, Queue, QueueType},
    cost::{Cost, Reading},
    load::Load,
    report::Report,
};

/// What a run needs. Dropping it deletes database, queue and vhost.
pub(crate) struct Trial<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) stack: Stack,
    queue: QueueType,
}

/// When a run began, and what had been used by then.
pub(crate) struct Start {
    at: Instant,
    pub(crate) used: Reading,
}

impl Start {
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

impl<'a> Trial<'a> {
    /// A queue that gets all that the relay publishes, and nobody consumes.
    pub(crate) async fn prepare(bench: &'a Bench, queue: QueueType) -> Self {
        Self::with_queues(bench, queue, &[Queue::of_relay(queue)]).await
    }

    /// Queues that share what the relay publishes.
    pub(crate) async fn with_queues(bench: &'a Bench, queue: QueueType, queues: &[Queue]) -> Self {
        let stack = bench.stack().await;
        for queue in queues {
            queue.declare(&stack.vhost).await;
        }
        // The watcher looks every 20 ms. It must not cost, whatever the planner knows of the table.
        stack.db.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.expect("settings");
        Self { bench, stack, queue }
    }

    /// Keeps the queue short, where its length would be what is measured.
    pub(crate) async fn consumer(&self) -> Consumer {
        Consumer::start(&self.stack.vhost, &Queue::of_relay(self.queue), |_, _| ()).await
    }

    /// Emits a backlog, starts the relay, and waits until all is SENT. Returns events per second, counted from the
    /// start of the relay's process.
    pub(crate) async fn drain_backlog(
        &self,
        report: &mut Report,
        case: &str,
        load: &Load,
        events: u64,
        relay: &RelayBuilder,
    ) -> f64 {
        load.emit(&self.stack.db, events).await;
        let start = self.begin(None).await;
        let relay = relay.spawn();
        self.finish(report, case, events, &start, &relay).await
    }

    /// Begins to count.
    pub(crate) async fn begin(&self, relay: Option<&Relay>) -> Start {
        quiet(&self.stack.db).await;
        let used = Reading::take(self.bench, &self.stack.db, relay.map(Relay::pid)).await;
        Start { at: Instant::now(), used }
    }

    /// Waits until all is SENT, and reports rate, costs and memory. Returns events per second.
    pub(crate) async fn finish(
        &self,
        report: &mut Report,
        case: &str,
        events: u64,
        start: &Start,
        relay: &Relay,
    ) -> f64 {
        self.all_settled(relay).await;
        let rate = rate(events, start.elapsed());
        let cost = Cost::since(&start.used, self.bench, &self.stack.db, relay.pid()).await;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let memory_mb = relay.usage().peak_rss_bytes as f64 / 1e6;
        println!("  {case}: {events} events at {rate:.0}/s, {memory_mb:.0} MB");
        report.add("throughput", case, "rate", "/s", rate);
        cost.add_to(report, case, events);
        report.add("throughput", case, "relay memory", "MB", memory_mb);
        rate
    }

    /// Waits until no row is PENDING.
    ///
    /// The newest row is looked for first: until the end it is PENDING, and found at once.
    ///
    /// # Panics
    /// When the relay ends, or a row is FAILED.
    pub(crate) async fn all_settled(&self, relay: &Relay) {
        let db = &self.stack.db;
        let newest =
            "SELECT seq FROM outbox.events WHERE status = 'PENDING' AND available_at IS NULL ORDER BY seq DESC LIMIT 1";
        let newest = db.prepare(newest).await.expect("a statement");
        eventually("every row is SENT", LONG, async || {
            assert!(relay.try_exit().is_none(), "the relay has ended:\n{}", relay.log_text());
            match db.query_opt(&newest, &[]).await.expect("outbox.events") {
                None => Ok(()),
                Some(row) => Err(row.get::<_, i64>(0)),
            }
        })
        .await;
        let others = "SELECT count(*) FROM outbox.events WHERE status <> 'SENT'";
        let others: i64 = db.query_one(others, &[]).await.expect("outbox.events").get(0);
        assert_eq!(others, 0, "rows are not SENT:\n{}", relay.log_text());
    }
}
