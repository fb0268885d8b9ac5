//! Which broker events go to.

use super::{kafka::Config as KafkaConfig, rabbitmq::Config as RabbitMqConfig};

/// The broker that events go to, with its settings.
#[derive(Clone, Debug)]
pub enum SinkConfig {
    /// RabbitMQ.
    RabbitMq(RabbitMqConfig),
    /// Kafka.
    Kafka(KafkaConfig),
}
