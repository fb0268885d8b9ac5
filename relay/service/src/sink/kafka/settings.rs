//! Kafka's part of the service's settings, and the producer's settings that follow from them.

use std::time::Duration;

use kafka_producer::{Compression, KafkaUrl, ProduceConfig, UrlSource};
use outbox_core::Ordering;

use super::Config;
use crate::address::{Address, BadFile};

/// Time limit of connecting to a broker, as for the other servers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Kafka's part of all settings; `None`: another broker is configured, or none.
pub fn settings(config: &crate::Config) -> Option<&Config> {
    config.sink.as_ref()?.kafka()
}

/// The producer's settings for the cluster at this address, which is read again for each connection.
///
/// # Errors
///
/// The file contains no valid address at the moment. Later, the address that was read last is taken in that case.
pub fn produce_config(config: &crate::Config, address: &Address<KafkaUrl>) -> Result<ProduceConfig, BadFile> {
    let (first, address) = (address.now()?, address.clone());
    let now = move || address.now().or_else(|_| address.known()).unwrap_or_else(|_| first.clone());
    Ok(ProduceConfig {
        url: UrlSource::new(now),
        client_id: config.application_name.clone(),
        read_back: settings(config).and_then(|kafka| kafka.read_back).unwrap_or_default(),
        compression: settings(config).map_or(Compression::None, |kafka| kafka.compression),
        keeps_order: config.policy.ordering != Ordering::None,
        confirm_timeout: config.confirm_timeout,
        connect_timeout: CONNECT_TIMEOUT,
    })
}
