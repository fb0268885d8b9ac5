//! Logs what happens to spans, less and less often while nothing changes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tracing::{debug, info, warn};

use crate::{observe::SpanCounts, repeats::Repeats};

/// The log of one exporter.
pub(super) struct Log {
    /// Number of dropped spans, in all.
    dropped: Arc<AtomicU64>,
    /// Number of dropped spans at the last check.
    seen: u64,
    /// Number of dropped spans that were logged.
    logged: u64,
    is_away: bool,
    failures: Repeats,
    remarks: Repeats,
    losses: Repeats,
}

impl Log {
    /// A log without any lines yet.
    pub(super) fn new(counts: &SpanCounts) -> Self {
        let dropped = Arc::clone(&counts.dropped);
        let (failures, remarks, losses) = Default::default();
        Self { dropped, seen: 0, logged: 0, is_away: false, failures, remarks, losses }
    }

    /// Logs that the collector did not take a batch.
    pub(super) fn failed(&mut self, error: &str) {
        self.is_away = true;
        let (is_news, times) = self.failures.count(error);
        if is_news {
            warn!(target: "relay", error, times, "the collector did not take spans; events are delivered all the same");
        } else {
            debug!(target: "relay", error, times, "the collector did not take spans");
        }
    }

    /// Logs that the collector takes batches again, and its remark on a batch.
    pub(super) fn taken(&mut self, remark: &str) {
        if std::mem::take(&mut self.is_away) {
            info!(target: "relay", dropped = self.dropped.load(Relaxed), "the collector takes spans again");
            (self.failures, self.remarks, self.losses) = Default::default();
        }
        if !remark.is_empty() {
            let (is_news, times) = self.remarks.count(remark);
            if is_news {
                warn!(target: "relay", words = remark, times, "the collector has taken spans, with a remark");
            }
        }
    }

    /// Logs spans that were dropped since the last call.
    pub(super) fn dropped(&mut self) {
        let in_all = self.dropped.load(Relaxed);
        if in_all > self.seen {
            self.seen = in_all;
            if self.losses.count("").0 {
                self.log_dropped(in_all);
            }
        }
    }

    fn log_dropped(&mut self, in_all: u64) {
        warn!(target: "relay", spans = in_all - self.logged, in_all, "spans were dropped");
        self.logged = in_all;
    }
}

/// Logs the remaining dropped spans when the exporter ends.
impl Drop for Log {
    fn drop(&mut self) {
        let in_all = self.dropped.load(Relaxed);
        if in_all > self.logged {
            self.log_dropped(in_all);
        }
    }
}
