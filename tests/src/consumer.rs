//! What arrives at the broker, seen through a public client library.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::StreamExt;
use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{FieldTable, ShortString},
};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::{Delivery, SOON, eventually};

/// Consumes a queue in the background and keeps every delivery in order, until it is dropped.
pub struct Consumer {
    queue: String,
    channel: Channel,
    exchange: String,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    task: JoinHandle<()>,
    _connection: Connection,
}

/// A consumer before it starts.
#[derive(Debug)]
pub struct ConsumerBuilder {
    url: String,
    exchange: String,
    binding: String,
    queue: Option<String>,
    is_there: bool,
    keep_bodies: bool,
    prefetch: Option<u16>,
}

impl ConsumerBuilder {
    pub(crate) fn new(url: String, exchange: &str, binding: &str) -> Self {
        let (exchange, binding) = (exchange.to_owned(), binding.to_owned());
        Self { url, exchange, binding, queue: None, is_there: false, keep_bodies: true, prefetch: None }
    }

    /// Names the queue; the default is a new one. A queue stays when its consumer goes, and one of that name that is
    /// there already, with what is in it, is taken over.
    #[must_use]
    pub fn queue(mut self, name: &str) -> Self {
        self.queue = Some(name.to_owned());
        self
    }

    /// Takes over a queue of any type, which must be there.
    #[must_use]
    pub fn existing_queue(mut self, name: &str) -> Self {
        self.is_there = true;
        self.queue(name)
    }

    /// Forgets the payloads, for floods.
    #[must_use]
    pub fn without_bodies(mut self) -> Self {
        self.keep_bodies = false;
        self
    }

    /// Acknowledges each delivery, with at most `count` unacknowledged; the default is a consumer the broker need not
    /// wait for (`no_ack`).
    #[must_use]
    pub fn prefetch(mut self, count: u16) -> Self {
        self.prefetch = Some(count);
        self
    }

    /// Declares the exchange (topic, durable, as the relay does) and a durable queue, binds them, and consumes.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn start(self) -> Consumer {
        self.try_start().await.unwrap_or_else(|e| panic!("cannot consume: {e}"))
    }

    async fn try_start(self) -> lapin::Result<Consumer> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let none = FieldTable::default;
        channel.exchange_declare(self.exchange.as_str().into(), ExchangeKind::Topic, durable, none()).await?;
        let name = self.queue.unwrap_or_else(|| format!("consumer-{}", Uuid::new_v4()));
        let durable = QueueDeclareOptions { durable: true, passive: self.is_there, ..Default::default() };
        let queue: ShortString = channel.queue_declare(name.as_str().into(), durable, none()).await?.name().clone();
        let bind = QueueBindOptions::default();
        channel
            .queue_bind(queue.clone(), self.exchange.as_str().into(), self.binding.as_str().into(), bind, none())
            .await?;
        if let Some(count) = self.prefetch {
            channel.basic_qos(count, BasicQosOptions::default()).await?;
        }
        let no_ack = self.prefetch.is_none();
        let options = BasicConsumeOptions { no_ack, ..Default::default() };
        let mut stream = channel.basic_consume(queue.clone(), "".into(), options, none()).await?;

        let deliveries = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&deliveries);
        let task = tokio::spawn(async move {
            while let Some(Ok(delivery)) = stream.next().await {
                let acker = delivery.acker.clone();
                collected.lock().expect("no panic while locked").push(Delivery::new(delivery, self.keep_bodies));
                if !no_ack && acker.ack(BasicAckOptions::default()).await.is_err() {
                    return; // the connection is gone; so is the stream
                }
            }
        });
        Ok(Consumer {
            queue: queue.to_string(),
            channel,
            exchange: self.exchange,
            deliveries,
            task,
            _connection: connection,
        })
    }
}

impl Consumer {
    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Binds the queue to the exchange by one more pattern.
    pub async fn bind(&self, binding: &str) {
        let options = QueueBindOptions::default();
        let bound = self.channel.queue_bind(
            self.queue.as_str().into(),
            self.exchange.as_str().into(),
            binding.into(),
            options,
            FieldTable::default(),
        );
        bound.await.unwrap_or_else(|e| panic!("cannot bind {binding}: {e}"));
    }

    /// What has arrived so far, in order.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.lock().clone()
    }

    /// How many deliveries have arrived, repeated ones included.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The ids that have arrived so far, in order, repeated ones included.
    pub fn ids(&self) -> Vec<Uuid> {
        self.lock().iter().map(|delivery| delivery.id).collect()
    }

    /// Waits until at least `count` deliveries have arrived ([`SOON`]), and returns all there are.
    pub async fn wait_for(&self, count: usize) -> Vec<Delivery> {
        self.wait_for_within(count, SOON).await
    }

    /// Waits until at least `count` deliveries have arrived, and returns all there are.
    ///
    /// # Panics
    /// When `deadline` has passed.
    pub async fn wait_for_within(&self, count: usize, deadline: Duration) -> Vec<Delivery> {
        let enough = || {
            if self.count() >= count { Ok(self.deliveries()) } else { Err(self.count()) }
        };
        eventually(&format!("{count} deliveries"), deadline, async || enough()).await
    }

    /// Waits until every one of `ids` has arrived at least once, and returns all deliveries.
    ///
    /// # Panics
    /// When `deadline` has passed, with the number of missing ids.
    pub async fn wait_for_ids(&self, ids: &[Uuid], deadline: Duration) -> Vec<Delivery> {
        let missing = || {
            let arrived: HashSet<Uuid> = self.ids().into_iter().collect();
            ids.iter().filter(|id| !arrived.contains(id)).count()
        };
        // Counting is cheap, comparing a flood of ids is not.
        let all = async || match self.count() {
            count if count < ids.len() => Err(format!("{count} deliveries")),
            _ => match missing() {
                0 => Ok(self.deliveries()),
                missing => Err(format!("{missing} missing")),
            },
        };
        eventually(&format!("all of {} ids", ids.len()), deadline, all).await
    }

    /// Waits until at least `count` different events have arrived, however often each, and returns their ids. The
    /// broker hands a message out a moment after it has confirmed it: rows that are `SENT` do not say that all have
    /// arrived.
    ///
    /// # Panics
    /// When `deadline` has passed, with the number that have arrived.
    pub async fn wait_for_events(&self, count: usize, deadline: Duration) -> HashSet<Uuid> {
        let arrived = || {
            let ids: HashSet<Uuid> = self.ids().into_iter().collect();
            if ids.len() >= count { Ok(ids) } else { Err(ids.len()) }
        };
        // Counting is cheap, comparing a flood of ids is not.
        let all = async || match self.count() {
            deliveries if deliveries < count => Err(deliveries),
            _ => arrived(),
        };
        eventually(&format!("{count} different events"), deadline, all).await
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Delivery>> {
        self.deliveries.lock().expect("no panic while locked")
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
