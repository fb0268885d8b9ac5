//! Which broker events go to.

use super::{kafka::config::Config as KafkaConfig, rabbitmq::config::Config as RabbitMqConfig};

/// The broker that events go to, with its settings.
#[derive(Clone, Debug)]
pub enum SinkConfig {
    /// RabbitMQ.
    RabbitMq(RabbitMqConfig),
    /// Kafka.
    Kafka(KafkaConfig),
}

impl SinkConfig {
    /// RabbitMQ's settings; `None`: events go to another broker.
    pub(super) fn rabbitmq(&self) -> Option<&RabbitMqConfig> {
        if let Self::RabbitMq(rabbitmq) = self { Some(rabbitmq) } else { None }
    }

    /// Kafka's settings; `None`: events go to another broker.
    pub(super) fn kafka(&self) -> Option<&KafkaConfig> {
        if let Self::Kafka(kafka) = self { Some(kafka) } else { None }
    }
}
