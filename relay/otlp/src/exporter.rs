//! The exporter's thread: takes spans from a queue, and sends them in batches.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    runtime::Builder,
    sync::{
        mpsc::{self, Receiver, Sender},
        oneshot,
    },
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{
    Endpoint, Headers, Service, Span,
    post::{Failure, Post, Taken},
    span,
};

/// Spans that wait to be sent, at most: OTLP's own default. One of some KiB each, with a batch that is being sent, is a few MiB.
pub const QUEUE: usize = 2048;

/// Spans of one request, at most: OTLP's own default.
const BATCH: usize = 512;

/// How long a span waits for others to share its request.
const GATHER: Duration = Duration::from_secs(1);

/// Pauses between attempts: they double from the first to the second of these.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Attempts for a batch. After that, some four minutes later, newer spans are worth more.
const ATTEMPTS: u32 = 12;

/// What becomes of spans, for those who run the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The collector did not take a batch. It is tried again, if it may be.
    Failed {
        /// Why.
        error: String,
    },
    /// Spans were dropped, so many since the last report: the collector has refused them or was away for too long, or the queue was full.
    Dropped {
        /// How many.
        spans: u64,
    },
    /// The collector has taken a batch, and says something about it.
    Said(String),
    /// The collector takes spans after it did not.
    Back,
}

/// How many spans have had which end.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Taken by the collector.
    pub exported: Arc<AtomicU64>,
    /// Lost.
    pub dropped: Arc<AtomicU64>,
}

/// What makes a span. It runs on the exporter's thread.
type Made = Box<dyn FnOnce() -> Span + Send>;

/// Where to hand spans over.
#[derive(Clone, Debug)]
pub struct Spans {
    queue: Sender<Made>,
    counts: Counts,
}

impl Spans {
    /// Hands a span over, made by `span` on the exporter's thread. Never waits: when the queue is full the span is dropped and counted.
    pub fn push(&self, span: impl FnOnce() -> Span + Send + 'static) {
        if self.queue.try_send(Box::new(span)).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Sends spans to a collector. Dropping it ends its thread, and what has not been sent is lost; see [`finish`](Self::finish).
#[derive(Debug)]
pub struct Exporter {
    spans: Spans,
    stop: oneshot::Sender<Instant>,
    ended: oneshot::Receiver<()>,
}

impl Exporter {
    /// Starts the thread. It is told to `report` what people should know, and counts in `counts`.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn start(
        endpoint: Endpoint,
        headers: Headers,
        service: Service,
        counts: Counts,
        report: impl FnMut(Report) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, made) = mpsc::channel(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let user_agent = format!("{}/{}", service.program, service.version);
        let post = Post::new(endpoint, headers.0, user_agent);
        let told_dropped = counts.dropped.load(Relaxed);
        let counted = counts.clone();
        thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let work = Work { made, post, service, counts: counted, told_dropped, was_refused: false, report, stopped };
            runtime.block_on(work.run());
            runtime.shutdown_background(); // a name that is being looked up must not delay the end
            drop(end);
        })?;
        Ok(Self { spans: Spans { queue, counts }, stop, ended })
    }

    /// Where to hand spans over.
    pub fn spans(&self) -> Spans {
        self.spans.clone()
    }

    /// Sends what has been handed over, as far as it can be sent within this time, and ends the thread.
    pub async fn finish(self, within: Duration) {
        let Self { spans, stop, ended } = self;
        let deadline = Instant::now() + within;
        drop(spans);
        if stop.send(deadline).is_ok() {
            let _ = timeout_at(deadline + within, ended).await; // it keeps to the deadline unless the machine is very busy
        }
    }
}

struct Work<R> {
    made: Receiver<Made>,
    post: Post,
    service: Service,
    counts: Counts,
    /// Of those that were dropped, how many have been reported.
    told_dropped: u64,
    was_refused: bool,
    report: R,
    /// The deadline for everything; closed if nobody waits for the end.
    stopped: oneshot::Receiver<Instant>,
}

impl<R: FnMut(Report)> Work<R> {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let deadline = loop {
            let stopped = tokio::select! { biased;
                stopped = &mut self.stopped => Some(stopped),
                () = gather(&mut self.made, &mut batch) => None,
            };
            let stopped = match stopped {
                Some(stopped) => Some(stopped),
                None => self.deliver(&mut batch).await,
            };
            self.tell_dropped();
            match stopped {
                None => {}
                Some(Ok(deadline)) => break deadline,
                Some(Err(_)) => return,
            }
        };
        self.flush(batch, deadline).await;
    }

    /// Sends a batch until it is taken, refused, or given up, which leaves it empty. Returns early when the end has come; what is under
    /// way then is waited for, so that no span is sent twice.
    async fn deliver(&mut self, batch: &mut Vec<Span>) -> Option<Result<Instant, oneshot::error::RecvError>> {
        let body = Bytes::from(span::encode(batch, &self.service));
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (sent, stopped) = {
                let mut sending = pin!(self.post.send(body.clone()));
                tokio::select! { biased;
                    sent = &mut sending => (sent, None),
                    stopped = &mut self.stopped => match stopped {
                        Ok(deadline) => (within(deadline, sending).await, Some(Ok(deadline))),
                        Err(gone) => return Some(Err(gone)),
                    },
                }
            };
            match sent {
                Ok(taken) => {
                    self.taken(batch.len(), taken);
                    batch.clear();
                    return stopped;
                }
                Err(Failure { why, may_pass }) => {
                    self.was_refused = true;
                    (self.report)(Report::Failed { error: why });
                    if !may_pass || attempt >= ATTEMPTS {
                        self.drop_spans(batch.len());
                        batch.clear();
                        return stopped;
                    }
                }
            }
            if stopped.is_some() {
                return stopped;
            }
            self.tell_dropped(); // by a queue that is full meanwhile
            tokio::select! { biased;
                stopped = &mut self.stopped => return Some(stopped),
                () = sleep(pause(attempt)) => {}
            }
        }
    }

    fn taken(&mut self, spans: usize, taken: Taken) {
        let rejected = taken.rejected.min(spans as u64);
        self.counts.exported.fetch_add(spans as u64 - rejected, Relaxed);
        self.counts.dropped.fetch_add(rejected, Relaxed);
        if std::mem::take(&mut self.was_refused) {
            (self.report)(Report::Back);
        }
        if !taken.words.is_empty() {
            (self.report)(Report::Said(taken.words));
        }
    }

    fn drop_spans(&mut self, spans: usize) {
        self.counts.dropped.fetch_add(spans as u64, Relaxed);
    }

    fn tell_dropped(&mut self) {
        let dropped = self.counts.dropped.load(Relaxed);
        if dropped > self.told_dropped {
            (self.report)(Report::Dropped { spans: dropped - self.told_dropped });
            self.told_dropped = dropped;
        }
    }

    /// Sends each batch once. After a failure there is no time left to wait for anything.
    async fn flush(mut self, mut batch: Vec<Span>, deadline: Instant) {
        self.made.close();
        let mut is_taken = true;
        loop {
            while batch.len() < BATCH
                && let Ok(made) = self.made.try_recv()
            {
                batch.push(made());
            }
            if batch.is_empty() {
                break;
            }
            if is_taken {
                let body = span::encode(&batch, &self.service);
                match within(deadline, self.post.send(body.into())).await {
                    Ok(taken) => self.taken(batch.len(), taken),
                    Err(failure) => {
                        is_taken = false;
                        (self.report)(Report::Failed { error: failure.why });
                    }
                }
            }
            if !is_taken {
                self.drop_spans(batch.len());
            }
            batch.clear();
        }
        self.tell_dropped();
    }
}

/// What becomes of a request for which there is no time after the deadline.
async fn within(deadline: Instant, sending: impl Future<Output = Result<Taken, Failure>>) -> Result<Taken, Failure> {
    let late = |_| Err(Failure { why: "it did not answer before the end".to_owned(), may_pass: true });
    timeout_at(deadline, sending).await.unwrap_or_else(late)
}

/// Waits for spans, and then for more of them, until a batch is full or the first has waited for long enough. Cancellation-safe: what was
/// taken is in `batch`.
async fn gather(made: &mut Receiver<Made>, batch: &mut Vec<Span>) {
    let mut until = None;
    while batch.len() < BATCH {
        let next = match until {
            None => made.recv().await,
            Some(until) => tokio::select! { biased;
                next = made.recv() => next,
                () = sleep_until(until) => return,
            },
        };
        match next {
            Some(made) => batch.push(made()),
            None if batch.is_empty() => std::future::pending().await, // nobody is left to hand any over
            None => return,
        }
        until = until.or_else(|| Some(Instant::now() + GATHER));
    }
}

/// Doubles with each attempt, and is shortened at random by up to a half.
fn pause(attempt: u32) -> Duration {
    let (first, longest) = PAUSES;
    let pause = first.saturating_mul(1 << (attempt - 1).min(16)).min(longest);
    pause.mul_f64(1.0 - fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        for (attempt, longest) in [(1, 1), (2, 2), (5, 16), (6, 30), (60, 30)] {
            let pause = pause(attempt).as_secs_f64();
            assert!((f64::from(longest) / 2.0..=f64::from(longest)).contains(&pause), "{attempt}: {pause}");
        }
    }

    #[test]
    fn spans_beyond_a_full_queue_are_dropped_and_counted() {
        let (queue, mut made) = mpsc::channel(3);
        let spans = Spans { queue, counts: Counts::default() };
        (0..5).for_each(|_| spans.push(|| unreachable!("nobody takes it")));
        assert_eq!(spans.counts.dropped.load(Relaxed), 2);
        made.close();
        spans.push(|| unreachable!("nobody takes it"));
        assert_eq!(spans.counts.dropped.load(Relaxed), 3);
    }
}
