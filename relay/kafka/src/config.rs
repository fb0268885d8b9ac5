//! What a producer needs to know.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use crate::{connect::url::KafkaUrl, record::compression::Compression};

/// What a [`Producer`](crate::Producer) needs to know.
#[derive(Clone, Debug)]
pub struct ProduceConfig {
    /// Brokers of the cluster, which name the others, and who logs in.
    pub url: UrlSource,
    /// The client's name in the broker's log and quotas.
    pub client_id: String,
    /// Most bytes of a topic that are [read back](crate::Producer::read_back).
    pub read_back: u64,
    /// How batches are compressed.
    pub compression: Compression,
    /// Whether records with the same key and topic are confirmed in their order, and none is written behind one that
    /// was not.
    pub keeps_order: bool,
    /// How long all brokers may confirm nothing while records are in flight.
    pub confirm_timeout: Duration,
    /// Time limit of an attempt to connect to a broker, with its login, and of each answer about the cluster.
    pub connect_timeout: Duration,
}

/// Gives the address of the cluster for each connection, since a password or token may have changed.
#[derive(Clone)]
pub struct UrlSource(Arc<dyn Fn() -> KafkaUrl + Send + Sync>);

impl UrlSource {
    /// Asks this function.
    pub fn new(now: impl Fn() -> KafkaUrl + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> KafkaUrl {
        (self.0)()
    }
}

impl From<KafkaUrl> for UrlSource {
    fn from(url: KafkaUrl) -> Self {
        Self::new(move || url.clone())
    }
}

impl FromStr for UrlSource {
    type Err = <KafkaUrl as FromStr>::Err;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        url.parse::<KafkaUrl>().map(Self::from)
    }
}

impl fmt::Debug for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UrlSource").field(&self.now()).finish()
    }
}
