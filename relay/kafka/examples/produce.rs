//! Writes a record for each line into a topic, and prints what became of it.

use std::time::Duration;

use kafka_producer::{Compression, Confirm, News, Outgoing, ProduceConfig, Producer, UrlSource};
use uuid::Uuid;

struct Line {
    id: Uuid,
    topic: String,
    text: String,
}

impl Outgoing for Line {
    type Mark = ();

    fn id(&self) -> Uuid {
        self.id
    }

    fn topic(&self) -> &str {
        &self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        Some(b"lines")
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(Some(self.text.as_bytes()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url: UrlSource = arguments.next().ok_or("usage: produce kafka://HOST:PORT TOPIC LINE...")?.parse()?;
    let topic = arguments.next().unwrap_or_default();
    let mut producer = Producer::connect(ProduceConfig {
        url,
        client_id: "example".to_owned(),
        read_back: 0,
        compression: Compression::Lz4,
        keeps_order: true,
        confirm_timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(10),
    })
    .await?;
    let line = |(number, text)| Line { id: Uuid::from_u128(number), topic: topic.clone(), text };
    let lines: Vec<Line> = (0_u128..).zip(arguments).map(line).collect();
    let mut unconfirmed = lines.len();
    producer.publish(lines);
    while unconfirmed > 0 {
        match producer.next().await {
            News::Confirms(confirms) => {
                unconfirmed -= confirms.len();
                for Confirm { id, kind } in confirms {
                    println!("{}: {kind:?}", id.as_u128());
                }
            }
            News::Read(_) => {} // nothing was asked for
            News::Lost(error) => return Err(error.into()),
        }
    }
    Ok(())
}
