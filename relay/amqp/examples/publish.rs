//! Publishes each argument as a message, and prints its confirm:
//! `cargo run --example publish -- amqp://user:password@host,another-host/vhost routing.key hello world`

use std::{collections::HashMap, error::Error, time::Duration};

use amqp_publisher::{AmqpUrl, ExchangeUse, Message, News, Outgoing, Properties, PublishConfig, Publisher};
use bytes::Bytes;
use uuid::Uuid;

/// A line of text for a routing key.
struct Line {
    id: Uuid,
    key: String,
    text: Bytes,
}

impl Outgoing for Line {
    fn id(&self) -> Uuid {
        self.id
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let properties = Properties { content_type: Some(b"text/plain"), ..Properties::default() };
        Ok(Message { exchange: None, routing_key: self.key.as_bytes(), properties, body: &self.text })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, texts @ ..] = &arguments[..] else { return Err("usage: publish URL ROUTING-KEY TEXT…".into()) };
    publish(url.parse()?, key, texts, |line| println!("{line}")).await
}

pub(crate) async fn publish(
    url: AmqpUrl,
    key: &str,
    texts: &[String],
    mut print: impl FnMut(String),
) -> Result<(), Box<dyn Error>> {
    let config = PublishConfig {
        url,
        try_first: None,
        try_last: None,
        exchange: "amq.topic".to_owned(),
        exchange_use: ExchangeUse::Take,
        app_id: "example".to_owned(),
        window: 1000, // texts beyond this number wait for confirms
        side_channels: 0,
        confirm_timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(10),
        reopen_after: Duration::from_millis(5),
        prove: false,
        connection_name: "example".to_owned(),
        product: "publish".to_owned(),
        version: "1".to_owned(),
    };
    let mut publisher = Publisher::connect(config).await?;
    let mut unconfirmed = HashMap::new();
    let mut batch = Vec::new();
    for text in texts {
        let line = Line { id: Uuid::new_v4(), key: key.to_owned(), text: text.clone().into() };
        unconfirmed.insert(line.id, text);
        batch.push(line);
    }
    publisher.publish(batch);
    while !unconfirmed.is_empty() {
        match publisher.next().await {
            News::Confirms(confirms) => {
                for confirm in confirms {
                    let text = unconfirmed.remove(&confirm.id).ok_or("a confirm of nothing")?;
                    print(format!("{text}: {:?}", confirm.kind));
                }
            }
            News::Blocked { reason } => print(format!("the broker takes nothing for now: {reason}")),
            News::Unblocked => print("the broker takes messages again".to_owned()),
            News::Lost(error) => return Err(error.into()), // unconfirmed texts may or may not have arrived
        }
    }
    publisher.close().await;
    Ok(())
}
