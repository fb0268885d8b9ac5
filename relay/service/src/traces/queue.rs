//! The span processor: a bounded queue, and the thread that sends its spans.
//!
//! The SDK's `BatchSpanProcessor` is not used: it drops a batch after 10 s without counting it, and reports only at its
//! end how many spans were dropped because its queue was full.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use outbox_core::Backoff;
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    time::{Instant, sleep, sleep_until},
};

use super::{
    collector::{Collector, Failure, Taken},
    log::Log,
};
use crate::observe::SpanCounts;

/// Most spans that wait to be sent: OTLP's own default. With some KiB each, the queue and the batch that is being sent
/// need a few MiB.
const QUEUE: usize = 2048;

/// Most spans of one request: OTLP's own default.
const BATCH: usize = 512;

/// How long a span waits for others to share its request.
const GATHER: Duration = Duration::from_secs(1);

/// Pauses between attempts to send a batch.
const PAUSES: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Most attempts to send a batch. They take some four minutes, after which newer spans are worth more.
const ATTEMPTS: u32 = 12;

/// Takes finished spans without waiting. Spans beyond the queue are dropped and counted.
#[derive(Debug)]
pub(super) struct Queue {
    spans: Sender<SpanData>,
    counts: SpanCounts,
}

/// Sends the spans of a [`Queue`].
pub(super) struct Worker {
    spans: Receiver<SpanData>,
    counts: SpanCounts,
    collector: Collector,
    end: End,
    log: Log,
    jitter: fastrand::Rng,
}

/// A queue with its worker. [`Worker::run`] ends by the deadline that is sent to `end`.
pub(super) fn queue(
    collector: Collector,
    counts: SpanCounts,
    end: watch::Receiver<Option<Instant>>,
) -> (Queue, Worker) {
    let (sender, spans) = mpsc::channel(QUEUE);
    let (log, jitter) = (Log::new(&counts), fastrand::Rng::new());
    let queue = Queue { spans: sender, counts: counts.clone() };
    (queue, Worker { spans, counts, collector, end: End(end), log, jitter })
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// Does nothing, because the worker's `end` shuts the processor down with a deadline.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Worker {
    /// Sends spans until the end, and then the remaining ones, as far as the deadline allows.
    pub(super) async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                return;
            }
            self.deliver(batch).await;
            self.log.dropped();
        }
    }

    /// Collects a batch, until it is full or its first span has waited for [`GATHER`]. An empty batch means that the
    /// end has come and no spans are left.
    async fn gather(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut until = None;
        while batch.len() < BATCH {
            let waited = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let room = BATCH - batch.len();
            tokio::select! { biased;
                () = self.end.has_begun(), if !self.spans.is_closed() => self.spans.close(),
                received = self.spans.recv_many(&mut batch, room) => {
                    if received == 0 {
                        break; // the queue is closed and empty
                    }
                    until = until.or_else(|| Some(Instant::now() + GATHER));
                }
                () = waited => break,
            }
        }
        batch
    }

    /// Sends a batch until it is taken, rejected or given up. After the end has begun, there is one last attempt.
    async fn deliver(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        for attempt in 1..=ATTEMPTS {
            // A request that is under way when the end begins is waited for, so that no span is sent twice.
            let sent = tokio::select! { biased;
                sent = self.collector.send(batch.clone()) => sent,
                () = self.end.is_over() => {
                    Err(Failure { why: "it did not answer before the end".to_owned(), is_transient: false })
                }
            };
            match sent {
                Ok(taken) => return self.taken(spans, &taken),
                Err(Failure { why, is_transient }) => {
                    self.log.failed(&why);
                    if !is_transient || self.spans.is_closed() {
                        break;
                    }
                }
            }
            self.log.dropped(); // the queue may have been full meanwhile
            tokio::select! { biased;
                () = self.end.has_begun() => self.spans.close(),
                () = sleep(PAUSES.delay(attempt, &mut self.jitter)) => {}
            }
        }
        self.counts.dropped.fetch_add(spans as u64, Relaxed);
    }

    fn taken(&mut self, spans: usize, taken: &Taken) {
        let rejected = taken.rejected.min(spans as u64);
        self.counts.exported.fetch_add(spans as u64 - rejected, Relaxed);
        self.counts.dropped.fetch_add(rejected, Relaxed);
        self.log.taken(&taken.remark);
    }
}

/// The deadline of the worker; `None` until the end begins. If the sender is gone, nobody waits for the worker.
struct End(watch::Receiver<Option<Instant>>);

impl End {
    async fn has_begun(&mut self) {
        let _ = self.0.wait_for(Option::is_some).await;
    }

    async fn is_over(&mut self) {
        let deadline = self.0.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline);
        if let Some(deadline) = deadline {
            sleep_until(deadline).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

    use super::*;

    #[test]
    fn spans_beyond_a_full_queue_are_dropped_and_counted() {
        let (sender, mut spans) = mpsc::channel(3);
        let counts = SpanCounts::default();
        let queue = Queue { spans: sender, counts: counts.clone() };
        let provider = SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOn).with_span_processor(queue).build();
        let tracer = provider.tracer("test");
        (0..5).for_each(|_| drop(tracer.start("a")));
        assert_eq!(counts.dropped.load(Relaxed), 2);
        spans.close();
        drop(tracer.start("a"));
        assert_eq!(counts.dropped.load(Relaxed), 3);
    }
}
