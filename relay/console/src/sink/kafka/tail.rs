//! Records as they reach topics, read without a consumer group.

use std::{collections::VecDeque, future::pending, time::Duration};

use kafka_producer::{Fetched, From, KafkaError, Reader};
use outbox_service::{
    Config,
    error::{Kind, RunError},
    sink::kafka::{self, end_of_start, produce_config},
};
use tokio::time::timeout;

use super::message::Message;
use crate::{format::exact, sink, terminal::output::note};

/// Longest time that a broker waits for a record before it answers that there is none.
const WAIT: Duration = Duration::from_millis(500);

/// The topics that are read.
pub struct Tail {
    reader: Reader,
    topics: Vec<String>,
    payload: bool,
    /// Records that were read ahead.
    ahead: VecDeque<Fetched>,
}

impl Tail {
    /// Connects and finds the end of each topic, within `limit`.
    pub(super) async fn open(
        config: &Config,
        topics: &[String],
        payload: bool,
        limit: Duration,
    ) -> Result<Self, RunError> {
        let missing = || RunError::new(Kind::Usage, "kafka_url is not set");
        let kafka = kafka::settings(config).ok_or_else(missing)?;
        let open = async {
            let reader = Reader::connect(produce_config(config, &kafka.url)?).await;
            let mut reader = reader.map_err(|error| end_of_start(&error, &kafka.url))?;
            for topic in topics {
                let failed = |error| {
                    RunError::new(Kind::BrokerRefused, format!("cannot read the topic {topic:?}"))
                        .hint("see that it exists, and that the user has the right READ")
                        .source(error)
                };
                reader.begin(topic, From::End).await.map_err(failed)?;
            }
            Ok(reader)
        };
        let late = || {
            RunError::new(Kind::Broker, format!("{} has not answered within {}", kafka.url, exact(limit)))
                .hint("check that the brokers run")
        };
        let reader = timeout(limit, open).await.unwrap_or_else(|_| Err(late()))?;
        Ok(Self { reader, topics: topics.to_owned(), payload, ahead: VecDeque::new() })
    }
}

impl sink::Tail for Tail {
    type Message = Message;

    fn source(&self) -> String {
        format!("the topics {}", self.topics.join(", "))
    }

    async fn next(&mut self) -> Result<Message, RunError> {
        loop {
            if let Some(record) = self.ahead.pop_front() {
                return Ok(Message::read(record, self.payload));
            }
            let left_out = self.reader.unreadable();
            self.ahead.extend(self.reader.next(WAIT).await.map_err(lost)?);
            if self.reader.unreadable() > left_out {
                note("Some records are left out: their batch cannot be read, or takes more than 128 MiB.");
            }
        }
    }

    async fn keep_alive(&mut self) -> RunError {
        pending().await // nothing is asked meanwhile
    }

    fn printed(&mut self) {}

    async fn close(self) {}
}

fn lost(error: KafkaError) -> RunError {
    RunError::new(Kind::Broker, "lost the broker").hint("run the command again").source(error)
}
