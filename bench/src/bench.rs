//! The servers under test, and how much to measure.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use harness::{Connection, Postgres, RabbitMq, RelayBuilder, Stack, eventually};

/// No run takes longer.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// WAL files of 16 MB that are there to be used again: as many as a checkpoint is away at `max_wal_size` = 4 GB.
const WAL_FILES: usize = 128;

/// What every section is given.
pub(crate) struct Bench {
    /// fsync on, as it comes.
    pub(crate) postgres: Postgres,
    /// As it comes.
    pub(crate) rabbitmq: RabbitMq,
    /// How often each figure is measured, the warm-up left out.
    pub(crate) runs: usize,
    /// Everything is divided by this: `QUICK=1` only shows that the benchmark works.
    shrink: u64,
    case: Option<String>,
    settings: Vec<(String, String)>,
    /// Another relay than the one that was built with this benchmark.
    program: Mutex<Option<PathBuf>>,
}

impl Bench {
    /// Starts the servers. Read from the environment: `RUNS=<count>`, `QUICK=1`, `CASE=<parts of names, with |
    /// between>` and `RELAY="<setting>=<value> …"`, for a relay with other settings than the defaults.
    pub(crate) async fn start() -> Self {
        let quick = std::env::var("QUICK").is_ok_and(|quick| !quick.is_empty());
        let runs = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(if quick { 1 } else { 3 });
        let (postgres, rabbitmq) = tokio::join!(used_postgres(), RabbitMq::private().start());
        let case = std::env::var("CASE").ok().filter(|part| !part.is_empty());
        let relay = std::env::var("RELAY").unwrap_or_default();
        let settings = relay.split_whitespace().filter_map(|setting| setting.split_once('='));
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self {
            postgres,
            rabbitmq,
            runs,
            shrink: if quick { 100 } else { 1 },
            case,
            settings,
            program: Mutex::default(),
        }
    }

    /// An amount of work, less of it when only a quick look is wanted.
    pub(crate) fn amount(&self, full: u64) -> u64 {
        (full / self.shrink).max(100)
    }

    /// Whether a case is to be measured: all are, unless `CASE` asks for some.
    pub(crate) fn wants(&self, case: &str) -> bool {
        self.case.as_ref().is_none_or(|parts| parts.split('|').any(|part| case.contains(part)))
    }

    /// Whether this is only a look at whether the benchmark works.
    pub(crate) fn is_quick(&self) -> bool {
        self.shrink > 1
    }

    /// Whether nothing is left out or other than by default.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_quick() && self.case.is_none() && self.settings.is_empty()
    }

    /// A relay to RabbitMQ with the settings of `RELAY`, or all defaults.
    pub(crate) fn relay(&self, stack: &Stack) -> RelayBuilder {
        self.configured(stack.relay())
    }

    /// This relay with the settings of `RELAY`.
    pub(crate) fn configured(&self, relay: RelayBuilder) -> RelayBuilder {
        let relay = self.settings.iter().fold(relay, |relay, (name, value)| relay.set(name, value));
        let program = self.program.lock().expect("no panic while locked");
        program.iter().fold(relay, |relay, program| relay.program(program))
    }

    /// From now on relays are this program, or the one that was built with the benchmark.
    pub(crate) fn measure_program(&self, program: Option<&Path>) {
        *self.program.lock().expect("no panic while locked") = program.map(Path::to_owned);
    }

    /// A fresh database and vhost.
    pub(crate) async fn stack(&self) -> Stack {
        Stack::on(&self.postgres, &self.rabbitmq).await
    }
}

/// A server that has written WAL before, as every server in production has, and uses those files again. A new server
/// makes each file first, and every commit waits meanwhile: 15 ms and more each time, which would be most of a p99.
async fn used_postgres() -> Postgres {
    let postgres = Postgres::private().set("min_wal_size", &format!("{}MB", WAL_FILES * 16)).start().await;
    let db = Connection::open(&postgres.url("postgres")).await;
    for _ in 0..WAL_FILES {
        let fill = "SELECT pg_logical_emit_message(false, '', ''); SELECT pg_switch_wal()";
        db.batch_execute(fill).await.expect("another WAL file");
    }
    db.batch_execute("CHECKPOINT").await.expect("a checkpoint, which keeps the files");
    postgres
}

/// Writes all dirty pages, and waits until no autovacuum runs: neither is switched off, but they belong to what was
/// done before.
pub(crate) async fn quiet(db: &Connection) {
    db.batch_execute("CHECKPOINT").await.expect("CHECKPOINT");
    let workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";
    eventually("no autovacuum runs", LONG, async || match db.query_one(workers, &[]).await.expect("workers").get(0) {
        0_i64 => Ok(()),
        workers => Err(workers),
    })
    .await;
}

/// Events per second.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn rate(events: u64, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64()
}
