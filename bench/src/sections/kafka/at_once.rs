//! Publishes a record at once for each event that is emitted: a relay that costs nothing.

use std::{sync::Arc, time::Duration};

use kafka_producer::{ConfirmKind, Headers, News, Outgoing, ProduceConfig, Producer};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{broker::id_of, emitted::Emitted};

/// A record whose id is that of its number.
struct Numbered {
    id: Uuid,
    topic: Arc<str>,
    body: Arc<[u8]>,
}

impl Outgoing for Numbered {
    type Mark = ();

    fn id(&self) -> Uuid {
        self.id
    }

    fn topic(&self) -> &str {
        &self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        Some(self.id.as_bytes())
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(Some(&self.body))
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
        headers.put("id", self.id.to_string().as_bytes());
        Ok(())
    }
}

/// Publishes until there will not be more events, and waits for the last verdict. Blocks the thread that calls it.
pub(super) fn publish(config: ProduceConfig, topic: &str, bytes: usize, emitted: &Emitted) {
    let (sender, numbers) = mpsc::channel(1000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    std::thread::scope(|scope| {
        scope.spawn(|| count(emitted, sender));
        runtime.block_on(publish_each(config, topic.into(), vec![b'x'; bytes].into(), numbers));
    });
}

fn count(emitted: &Emitted, numbers: mpsc::Sender<u64>) {
    let mut counted = 0;
    loop {
        emitted.wait_for_more_than(counted);
        let events = emitted.so_far().events;
        if events == counted {
            return;
        }
        for number in counted..events {
            numbers.blocking_send(number).expect("the publisher goes on");
        }
        counted = events;
    }
}

async fn publish_each(config: ProduceConfig, topic: Arc<str>, body: Arc<[u8]>, mut numbers: mpsc::Receiver<u64>) {
    let mut producer = Producer::connect(config).await.unwrap_or_else(|e| panic!("cannot publish: {e}"));
    let numbered = |number| Numbered { id: id_of(number), topic: Arc::clone(&topic), body: Arc::clone(&body) };
    let (mut unconfirmed, mut is_all) = (0_usize, false);
    let mut next = Vec::new();
    while !is_all || unconfirmed > 0 {
        tokio::select! {
            received = numbers.recv_many(&mut next, 1000), if !is_all => {
                is_all = received == 0;
                unconfirmed += received;
                producer.publish(next.drain(..).map(&numbered).collect());
            }
            news = producer.next() => match news {
                News::Confirms(confirms) => {
                    assert!(confirms.iter().all(|confirm| confirm.kind == ConfirmKind::Taken), "each record is taken");
                    unconfirmed -= confirms.len();
                }
                News::Read(_) => {} // nothing was asked for
                News::Lost(error) => panic!("the producer has ended: {error}"),
            },
        }
    }
}

/// How records are published and read here.
pub(super) fn config(brokers: &str) -> ProduceConfig {
    /// No answer takes longer.
    const LONG: Duration = Duration::from_secs(30);
    ProduceConfig {
        url: format!("kafka://{brokers}").parse().expect("addresses of brokers"),
        client_id: "bench".to_owned(),
        read_back: 0,
        compression: kafka_producer::Compression::None,
        keeps_order: true,
        confirm_timeout: LONG,
        connect_timeout: LONG,
    }
}
