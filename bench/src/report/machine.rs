//! Where it was measured: the machine, the servers with the settings that count, the program.

use std::{path::Path, process::Command, thread::available_parallelism};

use harness::places::checkout;
use serde_json::Value;

use crate::bench::Bench;

/// The settings that a benchmark would change first to look fast.
const DURABILITY: [&str; 4] = ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"];

/// Other settings that decide about speed.
const SETTINGS: [&str; 5] = ["shared_buffers", "min_wal_size", "max_wal_size", "wal_level", "jit"];

/// More than this at the start, and somebody else is at work: a tenth of a core disturbs no figure by more than its
/// spread, and the average of an idle machine stays far below.
const IDLE_LOAD: f64 = 0.5;

/// Facts by name, in the order in which they are shown.
#[derive(Debug, Default)]
pub(crate) struct Machine(Vec<(String, String)>);

impl Machine {
    /// Asks the operating system and both servers. `load` is the load average from before they started.
    pub(crate) async fn look(bench: &Bench, load: f64) -> Self {
        let stack = bench.stack().await;
        let ask = async |sql: &str| -> String { stack.db.query_one(sql, &[]).await.expect(sql).get(0) };
        let show = async |names: &[&str]| -> String {
            let mut shown = Vec::new();
            for name in names {
                shown.push(format!("{name} {}", ask(&format!("SHOW {name}")).await));
            }
            shown.join(", ")
        };
        let rabbitmq = stack.vhost.api("GET", "/api/overview", None).await;
        let version = |of: &str| rabbitmq.get(of).and_then(Value::as_str).unwrap_or("?").to_owned();
        let build = if cfg!(debug_assertions) { "debug: not for measuring" } else { "release" };
        let cores = available_parallelism().map(|cores| cores.to_string());
        let facts = [
            ("date", ask("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')").await),
            ("commit", commit()),
            ("build", build.to_owned()),
            ("CPU", field("/proc/cpuinfo", "model name").unwrap_or_else(unknown)),
            ("cores", cores.unwrap_or_else(|_| unknown())),
            ("memory", field("/proc/meminfo", "MemTotal").map_or_else(unknown, |kib| gibibytes(&kib))),
            ("kernel", read("/proc/sys/kernel/osrelease").map_or_else(unknown, |release| format!("Linux {release}"))),
            ("file system", file_system(bench.postgres.socket_folder())),
            ("PostgreSQL", ask("SHOW server_version").await),
            ("durability", show(&DURABILITY).await),
            ("settings", show(&SETTINGS).await),
            ("RabbitMQ", format!("{} on Erlang {}", version("rabbitmq_version"), version("erlang_version"))),
            ("load before", format!("{load:.2}{}", if load > IDLE_LOAD { ": not idle" } else { "" })),
        ];
        Self(facts.map(|(name, fact)| (name.to_owned(), fact)).into())
    }

    /// What is known by that name, or nothing.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.0.iter().find(|fact| fact.0 == name).map_or("", |fact| &fact.1)
    }

    /// A list in Markdown.
    pub(crate) fn markdown(&self) -> String {
        self.0.iter().map(|(name, fact)| format!("- {name}: {fact}\n")).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        self.0.iter().map(|(name, fact)| (name.clone(), Value::from(fact.as_str()))).collect()
    }

    /// In the order of their names, which is all that JSON has.
    pub(crate) fn from_json(json: &Value) -> Self {
        let facts = json.as_object().into_iter().flatten();
        Self(facts.filter_map(|(name, fact)| Some((name.clone(), fact.as_str()?.to_owned()))).collect())
    }
}

/// The load average of the last minute. A machine that is not idle is warned of: every figure will be too bad.
pub(crate) fn load() -> f64 {
    let load = read("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(f64::NAN);
    if load > IDLE_LOAD {
        eprintln!("warning: load average {load:.2}: something else is at work here, or was a minute ago");
    }
    load
}

/// The short hash, and whether files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| line(Command::new("git").arg("-C").arg(checkout()).args(arguments));
    let Some(hash) = git(&["rev-parse", "--short", "HEAD"]) else {
        return unknown();
    };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => format!("{hash} and changes on top"),
    }
}

/// The type of file system that holds a folder, PostgreSQL's for one.
fn file_system(folder: &Path) -> String {
    let df = line(Command::new("df").arg("--output=fstype").arg(folder));
    df.and_then(|df| df.lines().nth(1).map(str::to_owned)).unwrap_or_else(unknown)
}

/// `16384000 kB` as `15.6 GiB`.
fn gibibytes(meminfo: &str) -> String {
    let kib: Option<f64> = meminfo.split(' ').next().and_then(|kib| kib.parse().ok());
    kib.map_or_else(unknown, |kib| format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// `name : value`, the first of them.
fn field(file: &str, name: &str) -> Option<String> {
    let text = read(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// What a program prints, if it succeeds.
fn line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_being_saved() {
        let machine = Machine(vec![("cores".to_owned(), "2".to_owned()), ("kernel".to_owned(), "Linux 6".to_owned())]);
        assert_eq!(Machine::from_json(&machine.to_json()).0, machine.0);
        assert_eq!((machine.fact("cores"), machine.fact("CPU")), ("2", ""));
    }

    #[test]
    fn memory_is_in_gibibytes() {
        assert_eq!(gibibytes("8388608 kB"), "8.0 GiB");
        assert_eq!(gibibytes("?"), "unknown");
    }
}
