//! Where an event goes.

use crate::interface::Text;

/// An event's destination, as its row names it. What the two texts mean is the sink's business: RabbitMQ has an
/// exchange and a routing key, Kafka a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The column `exchange`; `None`: the sink's default.
    pub exchange: Option<Text>,
    /// The column `topic`.
    pub topic: Text,
}

impl Destination {
    /// The length of both texts.
    pub(crate) fn len(&self) -> usize {
        self.exchange.as_ref().map_or(0, |text| text.as_bytes().len()) + self.topic.as_bytes().len()
    }
}
