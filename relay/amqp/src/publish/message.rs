//! Messages that can be published.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::headers::{Headers, InvalidHeaders};

/// A type of yours that can be published: it describes itself as an AMQP message, and is written straight into the
/// output.
///
/// ```
/// use amqp_publisher::{Headers, InvalidHeaders, Message, Outgoing, Properties};
/// use uuid::Uuid;
///
/// struct Order {
///     id: Uuid,
///     json: bytes::Bytes,
/// }
///
/// impl Outgoing for Order {
///     fn id(&self) -> Uuid {
///         self.id
///     }
///
///     fn message(&self) -> Result<Message<'_>, &str> {
///         let properties = Properties { content_type: Some(b"application/json"), ..Properties::default() };
///         Ok(Message { exchange: None, routing_key: b"orders.created", properties, body: &self.json })
///     }
///
///     fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
///         headers.text("region", b"north")
///     }
/// }
/// ```
pub trait Outgoing: Send + 'static {
    /// The AMQP `message_id`, which a [`Confirm`](crate::Confirm) and a returned message carry: no two messages in
    /// flight may share it.
    fn id(&self) -> Uuid;

    /// Everything but the headers. Called when the message leaves, and again if the broker closes the channel.
    ///
    /// # Errors
    ///
    /// Why the message cannot be published. It is then confirmed as [`Closed`](crate::ConfirmKind::Closed) with code
    /// 502 and this text, and the broker never sees it.
    fn message(&self) -> Result<Message<'_>, &str>;

    /// Writes the headers. By default there are none.
    ///
    /// # Errors
    ///
    /// As for [`message`](Self::message).
    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        let _ = headers;
        Ok(())
    }
}

/// A caller who keeps messages until they are confirmed, to publish them again on another connection, shares them.
impl<M: Outgoing + Sync> Outgoing for Arc<M> {
    fn id(&self) -> Uuid {
        M::id(self)
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        M::message(self)
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        M::put_headers(self, headers)
    }
}

/// A message in AMQP's terms, borrowed from an [`Outgoing`]. Names are AMQP's short strings: at most 255 bytes.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The exchange to publish to; `None`: the exchange of [`PublishConfig`](crate::PublishConfig).
    pub exchange: Option<&'a [u8]>,
    /// The routing key.
    pub routing_key: &'a [u8],
    /// The properties that consumers get besides the body.
    pub properties: Properties<'a>,
    /// The body, kept until its last frame is written.
    pub body: &'a Bytes,
}

/// Properties of a message, except the headers, the id and the `app_id`
/// (<https://www.rabbitmq.com/docs/publishers#message-properties>).
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties<'a> {
    /// Media type of the body.
    pub content_type: Option<&'a [u8]>,
    /// Encoding of the body, as `gzip`.
    pub content_encoding: Option<&'a [u8]>,
    /// Whether a restart of the broker may lose the message (delivery mode 1). Otherwise a durable queue keeps it (mode
    /// 2).
    pub transient: bool,
    /// The message's rank in a priority queue.
    pub priority: Option<u8>,
    /// Id of the request or process that the message belongs to.
    pub correlation_id: Option<&'a [u8]>,
    /// The queue that a reply goes to.
    pub reply_to: Option<&'a [u8]>,
    /// Milliseconds, as text, after which a queue may drop the message.
    pub expiration: Option<&'a [u8]>,
    /// Seconds since the Unix epoch.
    pub timestamp: Option<u64>,
    /// AMQP `type`: the kind of message.
    pub kind: Option<&'a [u8]>,
    /// The sender: the broker closes the channel if it is not the user who is logged in.
    pub user_id: Option<&'a [u8]>,
}

/// A message for the tests of this crate.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) id: u128,
    pub(crate) exchange: Option<String>,
    pub(crate) routing_key: String,
    pub(crate) kind: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) body: Result<Bytes, &'static str>,
}

#[cfg(test)]
pub(crate) fn example(id: u128) -> Example {
    Example { id, exchange: None, routing_key: "key".to_owned(), kind: None, headers: None, body: Ok("{}".into()) }
}

#[cfg(test)]
impl Outgoing for Example {
    fn id(&self) -> Uuid {
        Uuid::from_u128(self.id)
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let properties = Properties { kind: self.kind.as_ref().map(String::as_bytes), ..Properties::default() };
        let exchange = self.exchange.as_ref().map(String::as_bytes);
        let routing_key = self.routing_key.as_bytes();
        self.body.as_ref().map(|body| Message { exchange, routing_key, properties, body }).map_err(|reason| *reason)
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        self.headers.as_ref().map_or(Ok(()), |json| headers.json(json.as_bytes(), |_| false))
    }
}
