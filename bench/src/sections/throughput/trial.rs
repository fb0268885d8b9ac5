//! A fresh database and queue.

use harness::Stack;

use crate::{
    bench::Bench,
    broker::{Consumer, Queue, QueueType},
    run::Run,
};

/// What a run needs. Dropping it deletes database, queue and vhost.
pub(crate) struct Trial<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) stack: Stack,
    queue: QueueType,
}

impl<'a> Trial<'a> {
    /// A queue that gets all that the relay publishes, and nobody consumes.
    pub(crate) async fn prepare(bench: &'a Bench, queue: QueueType) -> Self {
        Self::with_queues(bench, queue, &[Queue::of_relay(queue)]).await
    }

    /// Queues that share what the relay publishes.
    pub(crate) async fn with_queues(bench: &'a Bench, queue: QueueType, queues: &[Queue]) -> Self {
        let stack = bench.stack().await;
        for queue in queues {
            queue.declare(&stack.vhost).await;
        }
        Self { bench, stack, queue }
    }

    /// Keeps the queue short, where its length would be what is measured.
    pub(crate) async fn consumer(&self) -> Consumer {
        Consumer::start(&self.stack.vhost, &Queue::of_relay(self.queue), |_, _| ()).await
    }

    /// From the first event on.
    pub(crate) fn run(&self) -> Run<'_> {
        Run { bench: self.bench, db: &self.stack.db, broker: self.bench.rabbitmq.pid(), section: "throughput" }
    }
}
