//! The pager: prints each alert when it begins to ring and when it has ended.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Alert, Prometheus, eventually};
use tokio::task::JoinHandle;

use crate::terminal::Terminal;

/// The longest of the shipped alerts takes two minutes, after a minute in which events grow old.
const PATIENCE: Duration = Duration::from_secs(420);

/// Asks a Prometheus again and again until it is dropped.
pub(crate) struct Pager {
    ringing: Arc<Mutex<Vec<Alert>>>,
    task: JoinHandle<()>,
}

impl Pager {
    /// Rings on this terminal.
    pub(crate) fn watch(prometheus: Prometheus, terminal: Terminal) -> Self {
        let ringing = Arc::<Mutex<Vec<Alert>>>::default();
        let shared = Arc::clone(&ringing);
        let task = tokio::spawn(async move {
            loop {
                if let Ok(firing) = prometheus.firing().await {
                    let mut known = shared.lock().expect("no panic while locked");
                    let is_in = |list: &[Alert], alert: &Alert| list.iter().any(|one| one.name == alert.name);
                    for alert in firing.iter().filter(|alert| !is_in(&known, alert)) {
                        let Alert { name, severity, summary } = alert;
                        terminal.rings(&format!("{severity}: {name}: {summary}"));
                    }
                    for alert in known.iter().filter(|alert| !is_in(&firing, alert)) {
                        terminal.rings(&format!("resolved: {}", alert.name));
                    }
                    *known = firing;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Self { ringing, task }
    }

    /// Waits until an alert rings.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) async fn rings(&self, name: &str) -> Alert {
        eventually(&format!("{name} rings"), PATIENCE, async || {
            let ringing = self.ringing.lock().expect("no panic while locked");
            ringing.iter().find(|alert| alert.name == name).cloned().ok_or_else(|| ringing.clone())
        })
        .await
    }

    /// Waits until nothing rings.
    ///
    /// # Panics
    /// When something goes on.
    pub(crate) async fn is_quiet(&self) {
        eventually("nothing rings", PATIENCE, async || {
            let ringing = self.ringing.lock().expect("no panic while locked");
            if ringing.is_empty() { Ok(()) } else { Err(ringing.clone()) }
        })
        .await;
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.task.abort();
    }
}
