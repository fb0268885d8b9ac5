//! A real Prometheus with the shipped alert rules.

use std::{process::Command, time::Duration};

use serde_json::Value;

use crate::{
    Guarded, eventually,
    guarded::Start,
    http,
    places::{checkout, run_folder, server_folder},
    ports,
};

/// How often it scrapes and evaluates, as most installations do.
const INTERVAL: &str = "15s";

/// A Prometheus of its own on a loopback port that loads `ops/alerts.yml` as it is shipped. Dropping it ends it and
/// removes its files.
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    _process: Guarded,
}

/// An alert that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name in `ops/alerts.yml`.
    pub name: String,
    /// The label `severity`.
    pub severity: String,
    /// What it says to people.
    pub summary: String,
}

impl Prometheus {
    /// Starts it. It scrapes these ports of this machine.
    ///
    /// # Panics
    /// When the program is not on PATH: `scripts/setup night` fetches it into `target/tools/bin`.
    pub async fn start(targets: &[u16]) -> Self {
        let folder = server_folder("prometheus");
        let port = ports::free();
        let targets: Vec<String> = targets.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
        let settings = format!(
            "global: {{scrape_interval: {INTERVAL}, evaluation_interval: {INTERVAL}}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: outbox, static_configs: [{{targets: [{}]}}]}}]\n",
            checkout().join("ops/alerts.yml").display(),
            targets.join(", ")
        );
        let config = folder.join("prometheus.yml");
        std::fs::write(&config, settings).unwrap_or_else(|e| panic!("cannot write {}: {e}", config.display()));
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(&folder);
        let log = folder.join("prometheus.log");
        let start = Start { name: "prometheus", run: run_folder(&folder), log: Some(&log), user: None, stop: "KILL" };
        let (process, _) = Guarded::start(&start, &command);
        eventually("Prometheus is ready", Duration::from_secs(60), async || {
            if let Some(status) = process.try_exit() {
                panic!("Prometheus ended with {status}: {}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            match http::get(port, "/-/ready").await {
                Ok(answer) if answer.status == 200 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        Self { port, _process: process }
    }

    /// The alerts that fire now, those that only wait for their time left out.
    ///
    /// # Errors
    /// That Prometheus does not answer.
    pub async fn firing(&self) -> Result<Vec<Alert>, String> {
        let answer = http::request(self.port, "GET", "/api/v1/alerts", None).await?;
        let alerts = answer.pointer("/data/alerts").and_then(Value::as_array).cloned().unwrap_or_default();
        let text =
            |alert: &Value, place: &str| alert.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        let read = |alert: &Value| Alert {
            name: text(alert, "/labels/alertname"),
            severity: text(alert, "/labels/severity"),
            summary: text(alert, "/annotations/summary"),
        };
        Ok(alerts.iter().filter(|alert| text(alert, "/state") == "firing").map(read).collect())
    }
}
