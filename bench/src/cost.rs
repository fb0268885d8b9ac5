//! What a run costs, by process: CPU time and WAL, as the difference between two readings.

use std::{collections::HashMap, time::Duration};

use harness::Connection;

use crate::{bench::Bench, cpu, load::EMITTER, report::Report};

/// CPU times and WAL position at one moment.
pub(crate) struct Reading {
    /// Of every process of PostgreSQL, by process id.
    postgres: HashMap<u32, Duration>,
    broker: Duration,
    relay: Duration,
    /// Bytes since the cluster was made.
    wal: u64,
}

impl Reading {
    /// `broker` and `relay`: their processes, if the relay runs.
    pub(crate) async fn take(bench: &Bench, broker: u32, db: &Connection, relay: Option<u32>) -> Self {
        let wal = wal_position(db).await;
        Self {
            postgres: bench.postgres.children().into_iter().map(|pid| (pid, cpu::used_by(pid))).collect(),
            broker: cpu::used_by(broker),
            relay: relay.map_or(Duration::ZERO, cpu::used_by),
            wal,
        }
    }
}

/// What a number of events cost.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) relay: Duration,
    /// The backend that decodes the log for the relay.
    walsender: Duration,
    /// The relay's SQL session: scans and settles.
    relay_session: Duration,
    /// The sessions that emitted.
    emit: Duration,
    /// WAL writer, checkpointer, autovacuum, …; not the session that watches. Of autovacuum's workers only those that
    /// are still at work at the end.
    other_postgres: Duration,
    pub(crate) broker: Duration,
    /// Bytes.
    wal: u64,
}

impl Cost {
    /// What was used from `before` until `after`, which is now: relay and emitters are still connected. `watcher`: the
    /// session that watches.
    pub(crate) async fn between(before: &Reading, after: Reading, watcher: &Connection) -> Self {
        let mut cost = Self {
            relay: after.relay.saturating_sub(before.relay),
            broker: after.broker.saturating_sub(before.broker),
            wal: after.wal - before.wal,
            ..Self::default()
        };
        let sessions =
            "SELECT pid, CASE WHEN pid = pg_backend_pid() THEN 'watcher' WHEN application_name = $1 THEN 'emitter'
                                         WHEN application_name = 'outbox-relay' THEN backend_type ELSE 'other' END
                        FROM pg_stat_activity";
        let sessions = watcher.query(sessions, &[&EMITTER]).await.expect("pg_stat_activity");
        let roles: HashMap<u32, String> =
            sessions.iter().map(|row| (row.get::<_, i32>(0).unsigned_abs(), row.get(1))).collect();
        for (pid, used) in after.postgres {
            let used = used.saturating_sub(before.postgres.get(&pid).copied().unwrap_or_default());
            match roles.get(&pid).map_or("other", String::as_str) {
                "watcher" => {}
                "walsender" => cost.walsender += used,
                "client backend" => cost.relay_session += used,
                "emitter" => cost.emit += used,
                _ => cost.other_postgres += used,
            }
        }
        cost
    }

    /// PostgreSQL's processes together.
    pub(crate) fn postgres(&self) -> Duration {
        self.walsender + self.relay_session + self.emit + self.other_postgres
    }

    /// Adds it to a section of the report, per event, and prints it.
    pub(crate) fn add_to(&self, report: &mut Report, section: &str, case: &str, events: u64) {
        let us = |used| cpu::us_per_event(used, events);
        let mut add = |measure, used: Duration| report.add(section, case, measure, "µs", us(used));
        add("relay CPU", self.relay);
        add("walsender CPU", self.walsender);
        add("relay's session CPU", self.relay_session);
        if !self.emit.is_zero() {
            add("emit CPU", self.emit);
        }
        add("other PostgreSQL CPU", self.other_postgres);
        add("PostgreSQL CPU", self.postgres());
        add("broker CPU", self.broker);
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let wal = self.wal as f64 / events as f64;
        report.add(section, case, "WAL", "B", wal);
        println!(
            "    µs an event: relay {:.1}, walsender {:.1}, relay's session {:.1}, emit {:.1}, other PostgreSQL {:.1}, \
             broker {:.1}; WAL {wal:.0} B",
            us(self.relay),
            us(self.walsender),
            us(self.relay_session),
            us(self.emit),
            us(self.other_postgres),
            us(self.broker)
        );
    }
}

/// How much WAL was ever written, in bytes.
pub(crate) async fn wal_position(db: &Connection) -> u64 {
    let position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let position: i64 = db.query_one(position, &[]).await.expect("a WAL position").get(0);
    position.unsigned_abs()
}
