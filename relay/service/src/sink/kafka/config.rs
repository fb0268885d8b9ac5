//! The settings that only Kafka has.

use kafka_producer::{Compression, KafkaUrl};

use super::{envelope::Envelope, topic::TopicTemplate};
use crate::address::Address;

/// Kafka's part of the settings. docs/configuration.md explains each of them to operators.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster to publish to.
    pub url: Address<KafkaUrl>,
    /// Topic of events without an exchange of their own.
    pub topic: TopicTemplate,
    /// Most bytes of a topic that are read back; `None`: nothing is read back, and no earlier relay is shut out.
    pub read_back: Option<u64>,
    /// How batches of records are compressed.
    pub compression: Compression,
    /// The form of records.
    pub envelope: Envelope,
}
