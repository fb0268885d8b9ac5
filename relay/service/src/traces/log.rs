//! What people are told of spans, less and less often while nothing changes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tracing::{debug, info, warn};

use crate::{observe::SpanCounts, repeats::Repeats};

/// The log of one exporter.
pub(super) struct Log {
    /// Spans that were dropped, in all.
    dropped: Arc<AtomicU64>,
    /// How many of them the log has seen, and how many it has told.
    seen: u64,
    told: u64,
    is_away: bool,
    failures: Repeats,
    words: Repeats,
    losses: Repeats,
}

impl Log {
    /// Nothing is told yet.
    pub(super) fn new(counts: &SpanCounts) -> Self {
        let dropped = Arc::clone(&counts.dropped);
        let (failures, words, losses) = Default::default();
        Self { dropped, seen: 0, told: 0, is_away: false, failures, words, losses }
    }

    /// The collector did not take a batch.
    pub(super) fn failed(&mut self, error: &str) {
        self.is_away = true;
        let (is_news, times) = self.failures.count(error);
        if is_news {
            warn!(target: "relay", error, times, "the collector did not take spans; events are delivered all the same");
        } else {
            debug!(target: "relay", error, times, "the collector did not take spans");
        }
    }

    /// The collector has taken a batch, perhaps with a remark.
    pub(super) fn taken(&mut self, words: &str) {
        if std::mem::take(&mut self.is_away) {
            info!(target: "relay", dropped = self.dropped.load(Relaxed), "the collector takes spans again");
            (self.failures, self.words, self.losses) = Default::default();
        }
        if !words.is_empty() {
            let (is_news, times) = self.words.count(words);
            if is_news {
                warn!(target: "relay", words, times, "the collector has taken spans, with a remark");
            }
        }
    }

    /// Spans may have been dropped since the last call.
    pub(super) fn dropped(&mut self) {
        let in_all = self.dropped.load(Relaxed);
        if in_all > self.seen {
            self.seen = in_all;
            if self.losses.count("").0 {
                self.tell(in_all);
            }
        }
    }

    fn tell(&mut self, in_all: u64) {
        warn!(target: "relay", spans = in_all - self.told, in_all, "spans were dropped");
        self.told = in_all;
    }
}

/// When the exporter ends, what was not told yet is.
impl Drop for Log {
    fn drop(&mut self) {
        let in_all = self.dropped.load(Relaxed);
        if in_all > self.told {
            self.tell(in_all);
        }
    }
}
