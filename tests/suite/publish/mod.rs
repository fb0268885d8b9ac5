//! The publisher against real brokers: every event gets its own verdict, whatever happens to the others.

mod connect;
mod message;
mod outage;
mod tls;
mod verdict;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use harness::{RabbitMq, SOON};
use relay::{
    event::{Event, Text},
    publish::{ExchangeUse, Notice, PublishConfig, PublishError, Publisher, Verdict},
};
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
        exchange: "outbox".to_owned(),
        exchange_use: ExchangeUse::Declare,
        app_id: "suite".to_owned(),
        window: WINDOW,
        confirm_timeout: SOON,
        connect_timeout: SOON,
        connection_name: "suite".to_owned(),
    }
}

async fn connect(url: &str) -> Publisher {
    Publisher::connect(config(url)).await.unwrap()
}

fn event(topic: &'static str) -> Event {
    Event {
        id: Uuid::new_v4(),
        seq: 1,
        exchange: None,
        topic: Text::from_static(topic),
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: Ok("{}".into()),
        holds_key: false,
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 1_700_000_000_123_456,
        attempts: 0,
        first_attempted_at_us: None,
    }
}

fn events(topic: &'static str, count: usize) -> Vec<Event> {
    (0..count).map(|_| event(topic)).collect()
}

fn ids<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Uuid> {
    events.into_iter().map(|event| event.id).collect()
}

/// Publishes `events` with `window` in flight until each has its verdict.
async fn publish(publisher: &mut Publisher, events: &[Event], window: usize) -> HashMap<Uuid, Verdict> {
    let mut waiting: VecDeque<_> = events.iter().cloned().map(Arc::new).collect();
    let mut verdicts = HashMap::new();
    let mut in_flight = 0;
    while verdicts.len() < events.len() {
        let batch: Vec<_> = waiting.drain(..waiting.len().min(window - in_flight)).collect();
        in_flight += batch.len();
        publisher.publish(batch);
        for answer in answers(publisher).await {
            in_flight -= 1;
            let again = verdicts.insert(answer.id, answer.verdict);
            assert_eq!(again, None, "a second verdict for {}", answer.id);
        }
    }
    verdicts
}

async fn answers(publisher: &mut Publisher) -> Vec<relay::publish::Answer> {
    loop {
        match timeout(SOON, publisher.next()).await.expect("news from the broker") {
            Notice::Answers(answers) => return answers,
            Notice::Blocked { .. } | Notice::Unblocked => {} // another test's alarm
            Notice::Lost(error) => panic!("lost: {error:?}"),
        }
    }
}

async fn lost(publisher: &mut Publisher) -> PublishError {
    loop {
        if let Notice::Lost(error) = timeout(SOON, publisher.next()).await.expect("news from the broker") {
            return error;
        }
    }
}

fn returned() -> Verdict {
    Verdict::Returned { code: 312, text: "NO_ROUTE".to_owned() }
}
