//! The publisher against real brokers: every message gets its own confirm, whatever happens to the others.

mod confirm;
mod connect;
mod event;
mod example;
mod message;
mod outage;
pub(crate) mod tls;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use amqp_publisher::{
    AmqpError, Confirm, ConfirmKind, ExchangeUse, Headers, InvalidHeaders, Message, News, Outgoing, Properties,
    PublishConfig,
};
use bytes::Bytes;
use harness::{RabbitMq, SOON};
use tokio::{sync::OnceCell, time::timeout};
use uuid::Uuid;

const WINDOW: usize = 500;
const MAX_MESSAGE_BYTES: usize = 65_536;

/// A node that takes no large messages, for the tests that do not stop it.
async fn small_node() -> &'static RabbitMq {
    static NODE: OnceCell<RabbitMq> = OnceCell::const_new();
    let limit = MAX_MESSAGE_BYTES.to_string();
    NODE.get_or_init(async || RabbitMq::private().set("max_message_size", &limit).start().await).await
}

fn config(url: &str) -> PublishConfig {
    PublishConfig {
        url: url.parse().unwrap(),
        try_first: None,
        try_last: None,
        exchange: "outbox".to_owned(),
        exchange_use: ExchangeUse::Declare,
        app_id: "suite".to_owned(),
        window: WINDOW,
        side_channels: 0,
        confirm_timeout: SOON,
        connect_timeout: SOON,
        reopen_after: Duration::from_millis(5),
        prove: false,
        connection_name: "suite".to_owned(),
        product: "suite".to_owned(),
        version: "1".to_owned(),
    }
}

async fn connect(url: &str) -> Publisher {
    Publisher::connect(config(url)).await.unwrap()
}

type Publisher = amqp_publisher::Publisher<Arc<Note>>;

/// What these tests publish.
#[derive(Clone, Debug)]
struct Note {
    id: Uuid,
    exchange: Option<&'static str>,
    topic: &'static str,
    kind: Option<String>,
    headers: Option<String>,
    body: Bytes,
}

impl Outgoing for Note {
    fn id(&self) -> Uuid {
        self.id
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let properties = Properties { kind: self.kind.as_ref().map(String::as_bytes), ..Properties::default() };
        let exchange = self.exchange.map(str::as_bytes);
        Ok(Message { exchange, routing_key: self.topic.as_bytes(), properties, body: &self.body })
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        self.headers.as_ref().map_or(Ok(()), |json| headers.json(json.as_bytes(), |_| false))
    }
}

fn note(topic: &'static str) -> Note {
    Note { id: Uuid::new_v4(), exchange: None, topic, kind: None, headers: None, body: "{}".into() }
}

fn notes(topic: &'static str, count: usize) -> Vec<Note> {
    (0..count).map(|_| note(topic)).collect()
}

fn ids<'a>(notes: impl IntoIterator<Item = &'a Note>) -> Vec<Uuid> {
    notes.into_iter().map(|note| note.id).collect()
}

/// Publishes `messages` with `window` in flight until each has its confirm.
async fn publish(publisher: &mut Publisher, notes: &[Note], window: usize) -> HashMap<Uuid, ConfirmKind> {
    let mut waiting: VecDeque<_> = notes.iter().cloned().map(Arc::new).collect();
    let mut confirms = HashMap::new();
    let mut in_flight = 0;
    while confirms.len() < notes.len() {
        let batch: Vec<_> = waiting.drain(..waiting.len().min(window - in_flight)).collect();
        in_flight += batch.len();
        publisher.publish(batch);
        for confirm in next_confirms(publisher).await {
            in_flight -= 1;
            let again = confirms.insert(confirm.id, confirm.kind);
            assert_eq!(again, None, "a second confirm of {}", confirm.id);
        }
    }
    confirms
}

async fn next_confirms(publisher: &mut Publisher) -> Vec<Confirm> {
    loop {
        match timeout(SOON, publisher.next()).await.expect("news from the broker") {
            News::Confirms(confirms) => return confirms,
            News::Blocked { .. } | News::Unblocked => {} // another test's alarm
            News::Lost(error) => panic!("lost: {error:?}"),
        }
    }
}

async fn lost(publisher: &mut Publisher) -> AmqpError {
    loop {
        if let News::Lost(error) = timeout(SOON, publisher.next()).await.expect("news from the broker") {
            return error;
        }
    }
}

fn returned() -> ConfirmKind {
    ConfirmKind::Returned { code: 312, text: "NO_ROUTE".to_owned() }
}
