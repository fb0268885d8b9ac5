//! What can be published.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::headers::{Headers, InvalidHeaders};

/// A type of yours that can be published: it says what it looks like as an AMQP message, and is written from there straight
/// into the output.
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
    /// The AMQP `message_id`, by which the [`Answer`](crate::Answer) and a returned message are told apart: no two messages in
    /// flight may share one.
    fn id(&self) -> Uuid;

    /// Everything else but the headers. Asked for when the message leaves, and again should the broker close the channel.
    ///
    /// # Errors
    ///
    /// Why it cannot be published. It is then answered as [`Refused`](crate::Verdict::Refused), with code 502 and this text,
    /// and the broker hears nothing of it.
    fn message(&self) -> Result<Message<'_>, &str>;

    /// Writes the headers; none, if not overridden.
    ///
    /// # Errors
    ///
    /// As for [`message`](Self::message).
    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        let _ = headers;
        Ok(())
    }
}

/// For who keeps a message until it is answered, to publish it again on another connection.
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

/// A message as AMQP has it, borrowed from an [`Outgoing`]. Names are AMQP's short strings: at most 255 bytes.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Where to publish it; `None`: the exchange of [`PublishConfig`](crate::PublishConfig).
    pub exchange: Option<&'a [u8]>,
    /// The routing key.
    pub routing_key: &'a [u8],
    /// What consumers get besides the body.
    pub properties: Properties<'a>,
    /// The body, kept until the last frame of it is written.
    pub body: &'a Bytes,
}

/// Properties of a message, all but the headers, the id and the `app_id`
/// (<https://www.rabbitmq.com/docs/publishers#message-properties>).
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties<'a> {
    /// Media type of the body.
    pub content_type: Option<&'a [u8]>,
    /// Encoding of the body, as `gzip`.
    pub content_encoding: Option<&'a [u8]>,
    /// Whether it may be lost when the broker restarts (delivery mode 1). If not, a durable queue keeps it (delivery mode 2).
    pub transient: bool,
    /// Its place among others in a priority queue.
    pub priority: Option<u8>,
    /// What it belongs to.
    pub correlation_id: Option<&'a [u8]>,
    /// Where to answer.
    pub reply_to: Option<&'a [u8]>,
    /// When a queue may drop it, in milliseconds, as text.
    pub expiration: Option<&'a [u8]>,
    /// Seconds since the Unix epoch.
    pub timestamp: Option<u64>,
    /// AMQP `type`: what kind of message it is.
    pub kind: Option<&'a [u8]>,
    /// Who sends it: the broker refuses any other than the user who is logged in.
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
