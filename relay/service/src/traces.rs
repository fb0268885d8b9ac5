//! Spans on their way to an OpenTelemetry collector. Off the hot path: the exporter has a thread of its own, and what it has no room for
//! is dropped.

use std::time::Duration;

use otlp_exporter::{Counts, Exporter, Report, Service, Spans};
use tracing::{debug, info, warn};
use uuid::Builder;

use crate::{
    collector::Collector,
    config::{Config, PROGRAM},
    error::{Kind, RunError},
    observe::{Observed, SpanCounts},
    repeats::Repeats,
};

/// The semantic conventions that names and attributes of spans follow.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// How long the end of the relay may wait for the collector: a little of what a supervisor leaves beyond `shutdown_timeout`.
const FLUSH: Duration = Duration::from_secs(2);

/// The way to the collector, if there is one.
pub(crate) struct Traces {
    exporter: Option<Exporter>,
}

impl Traces {
    /// Starts the exporter, if a collector is configured.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub(crate) fn start(config: &Config, observed: &Observed) -> Result<Self, RunError> {
        let Some(Collector { endpoint, headers, service_name }) = config.collector.clone() else {
            return Ok(Self { exporter: None });
        };
        let service = Service {
            name: service_name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid().to_string(),
            program: PROGRAM,
            schema: SCHEMA,
        };
        info!(target: "relay", %endpoint, "spans of sampled events go to the collector");
        let headers = headers.unwrap_or_default();
        let SpanCounts { exported, dropped } = observed.spans().clone();
        let counts = Counts { exported, dropped };
        let mut log = Log::default();
        let exporter = Exporter::start(endpoint, headers, service, counts, move |report| log.tell(report))
            .map_err(|error| RunError::new(Kind::Internal, "cannot start the thread for spans").source(error))?;
        Ok(Self { exporter: Some(exporter) })
    }

    /// Where to hand spans over, if anybody wants them.
    pub(crate) fn queue(&self) -> Option<Spans> {
        self.exporter.as_ref().map(Exporter::spans)
    }

    /// Sends what is left, as far as the collector takes it within a moment.
    pub(crate) async fn finish(self) {
        if let Some(exporter) = self.exporter {
            exporter.finish(FLUSH).await;
        }
    }
}

/// Tells people, less and less often while nothing changes.
#[derive(Default)]
struct Log {
    failed: Repeats,
    said: Repeats,
    dropped: Repeats,
    /// In all.
    lost: u64,
    /// Of these, how many people have been told of.
    told: u64,
}

impl Log {
    fn tell(&mut self, report: Report) {
        match report {
            Report::Failed { error } => {
                let (is_news, times) = self.failed.count(&error);
                if is_news {
                    warn!(target: "relay", error, times, "the collector did not take spans; events are delivered all the same");
                } else {
                    debug!(target: "relay", error, times, "the collector did not take spans");
                }
            }
            Report::Dropped { spans } => {
                self.lost = self.lost.saturating_add(spans);
                if self.dropped.count("").0 {
                    self.tell_lost();
                }
            }
            Report::Said(words) => {
                let (is_news, times) = self.said.count(&words);
                if is_news {
                    warn!(target: "relay", words, times, "the collector has taken spans, with a remark");
                }
            }
            Report::Back => {
                info!(target: "relay", dropped = self.lost, "the collector takes spans again");
                (self.failed, self.said, self.dropped) = Default::default();
            }
        }
    }

    fn tell_lost(&mut self) {
        let spans = self.lost - self.told;
        self.told = self.lost;
        warn!(target: "relay", spans, in_all = self.lost, "spans were dropped");
    }
}

/// When the exporter ends.
impl Drop for Log {
    fn drop(&mut self) {
        if self.lost > self.told {
            self.tell_lost();
        }
    }
}
