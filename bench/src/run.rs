//! From the first event until every row is `SENT`, whichever broker the relay publishes to.

use std::time::{Duration, Instant};

use harness::{Database, Relay, RelayBuilder, eventually};

use crate::{
    bench::{Bench, LONG, quiet, rate},
    cost::{Cost, Reading},
    emitted::Emitted,
    load::{Load, emitters},
    report::Report,
};

/// Nearly every event has a key that no other event in flight has.
pub(crate) const MANY_KEYS: u64 = 100_000;
/// Sessions that emit in a live run: twice as many as there are cores on the machine this was written for.
pub(crate) const EMITTERS: usize = 4;
/// How long they emit.
pub(crate) const LIVE_MS: u64 = 4000;

/// A database whose events one relay publishes.
pub(crate) struct Run<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) db: &'a Database,
    /// The broker's process.
    pub(crate) broker: u32,
    /// Of the report.
    pub(crate) section: &'static str,
}

/// When a run began, and what had been used by then.
pub(crate) struct Start {
    at: Instant,
    used: Reading,
}

impl Start {
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

impl Run<'_> {
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
        load.emit(self.db, events).await;
        let start = self.begin(None).await;
        let relay = relay.spawn();
        self.finish(report, case, events, &start, &relay).await
    }

    /// Clients emit as fast as they can, with the relay streaming. Time is counted from the first event until the last
    /// is SENT. Returns events per second.
    pub(crate) async fn live(&self, report: &mut Report, case: &str, load: &Load, relay: &RelayBuilder) -> f64 {
        let sessions = emitters(self.db, EMITTERS).await;
        let relay = relay.start().await;
        let start = self.begin(Some(&relay)).await;
        let emitted = Emitted::default();
        load.emit_live(&sessions, Duration::from_millis(self.bench.amount(LIVE_MS)), &emitted).await;
        let events = emitted.so_far().events;
        let emitted = rate(events, start.elapsed());
        let rate = self.finish(report, case, events, &start, &relay).await;
        println!("    emitted at {emitted:.0}/s");
        rate
    }

    /// Begins to count.
    pub(crate) async fn begin(&self, relay: Option<&Relay>) -> Start {
        // The watcher looks every 20 ms. It must not cost, whatever the planner knows of the table.
        self.db.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.expect("settings");
        quiet(self.db).await;
        let used = self.used(relay).await;
        Start { at: Instant::now(), used }
    }

    async fn used(&self, relay: Option<&Relay>) -> Reading {
        Reading::take(self.bench, self.broker, self.db, relay.map(Relay::pid)).await
    }

    /// What was used since then.
    pub(crate) async fn cost_since(&self, start: &Start, relay: &Relay) -> Cost {
        Cost::between(&start.used, self.used(Some(relay)).await, self.db).await
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
        let cost = self.cost_since(start, relay).await;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let memory_mb = relay.usage().peak_rss_bytes as f64 / 1e6;
        println!("  {case}: {events} events at {rate:.0}/s, {memory_mb:.0} MB");
        report.add(self.section, case, "rate", "/s", rate);
        cost.add_to(report, self.section, case, events);
        report.add(self.section, case, "relay memory", "MB", memory_mb);
        rate
    }

    /// Waits until no row is PENDING.
    ///
    /// The newest row is looked for first: until the end it is PENDING, and found at once.
    ///
    /// # Panics
    /// When the relay ends, or a row is FAILED.
    pub(crate) async fn all_settled(&self, relay: &Relay) {
        let db = self.db;
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
