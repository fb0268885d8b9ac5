//! What a run has to say.

use std::{
    collections::HashMap,
    fmt::{self, Write},
    mem,
    time::Duration,
};

use uuid::Uuid;

use super::{
    checker::{Delivered, Evidence, Fact, Limits, Violation, duplicates},
    relays::Book,
    schedule::{BrokerFault, DatabaseFault, Fault, Schedule},
};

/// Of each kind of violation, so many are shown: the first ones say it.
const SHOWN: usize = 15;

#[derive(Debug)]
pub(super) struct Report {
    seed: u64,
    schedule: String,
    pub(super) violations: Vec<Violation>,
    totals: Totals,
    limit: usize,
    peak_memory: u64,
    retained_wal: i64,
    times: [Duration; 2],
    log: Vec<String>,
}

/// What runs add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    runs: usize,
    events: usize,
    faults: usize,
    /// Of relays.
    kills: usize,
    /// Of relays, the first ones left out.
    starts: usize,
    broker_restarts: usize,
    database_restarts: usize,
    replays: usize,
    duplicates: usize,
}

impl Report {
    pub(super) fn new(
        schedule: &Schedule,
        evidence: &Evidence,
        limits: &Limits,
        violations: Vec<Violation>,
        book: Book,
        times: [Duration; 2],
    ) -> Self {
        let faults = schedule.relay_faults.len() + schedule.broker_faults.len() + schedule.database_faults.len();
        let is_kill = |fault: &&Fault<BrokerFault>| fault.kind == BrokerFault::Kill;
        let is_restart = |fault: &&Fault<DatabaseFault>| fault.kind == DatabaseFault::Restart;
        let totals = Totals {
            runs: 1,
            events: evidence.facts.len(),
            faults,
            kills: book.exits.iter().filter(|code| **code == 137).count(),
            starts: book.starts - schedule.relays,
            broker_restarts: schedule.broker_faults.iter().filter(is_kill).count(),
            database_restarts: schedule.database_faults.iter().filter(is_restart).count(),
            replays: evidence.facts.iter().map(|fact| fact.replays).sum(),
            duplicates: duplicates(evidence),
        };
        Self {
            seed: schedule.seed,
            schedule: schedule.to_string(),
            violations,
            totals,
            limit: limits.duplicates,
            peak_memory: evidence.peak_memory,
            retained_wal: evidence.retained_wal,
            times,
            log: book.log,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Writes down what arrived, and the logs of all that took part.
    pub(super) fn keep(&self, evidence: &Evidence, postgres: &str, broker: &str) {
        let file = harness::places::checkout().join(format!("target/random-{}.log", self.seed));
        let relays = self.log.join("\n");
        let facts: HashMap<Uuid, &Fact> = evidence.facts.iter().map(|fact| (fact.id, fact)).collect();
        let mut queues = String::new();
        for (place, Delivered { id, queue, .. }) in evidence.delivered.iter().enumerate() {
            let _ = match facts.get(id) {
                Some(Fact { kind, tx, key, .. }) => writeln!(queues, "{queue:?} {place} {id} {kind:?} tx={tx} {key:?}"),
                None => writeln!(queues, "{queue:?} {place} {id} unknown"),
            };
        }
        let text = format!(
            "{self}\n--- queues\n{queues}\n--- relays\n{relays}\n--- PostgreSQL\n{postgres}\n--- the broker\n{broker}"
        );
        match std::fs::write(&file, text) {
            Ok(()) => println!("the logs are in {}", file.display()),
            Err(error) => println!("cannot write {}: {error}", file.display()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, totals, limit, peak_memory, retained_wal, times: [work, whole], .. } = self;
        write!(
            f,
            "SEED={seed}: {totals} (at most {limit}), {:.1} MB peak memory, {:.1} kB of WAL retained, {:.1} s of work, {:.1} s",
            *peak_memory as f64 / 1e6,
            *retained_wal as f64 / 1e3,
            work.as_secs_f64(),
            whole.as_secs_f64(),
        )?;
        if self.violations.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}{} violations:", self.schedule, self.violations.len())?;
        let mut counts = HashMap::new();
        for violation in &self.violations {
            let count = counts.entry(mem::discriminant(violation)).or_insert(0);
            *count += 1;
            if *count <= SHOWN {
                write!(f, "\n  {violation}")?;
            }
        }
        write!(f, "\nagain: make test T=random SEED={seed}")
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.faults += other.faults;
        self.kills += other.kills;
        self.starts += other.starts;
        self.broker_restarts += other.broker_restarts;
        self.database_restarts += other.database_restarts;
        self.replays += other.replays;
        self.duplicates += other.duplicates;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs > 1 {
            write!(f, "{} runs, ", self.runs)?;
        }
        write!(
            f,
            "{} events, {} faults ({} relays killed, {} started again, {} broker and {} database restarts), {} replays, {} duplicates",
            self.events,
            self.faults,
            self.kills,
            self.starts,
            self.broker_restarts,
            self.database_restarts,
            self.replays,
            self.duplicates,
        )
    }
}
