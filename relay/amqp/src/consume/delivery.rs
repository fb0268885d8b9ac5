//! A message as the broker delivers it.

use serde_json::{Map, Value};

use super::table::table;
use crate::protocol::{
    method::BASIC,
    wire::{Malformed, Reader},
};

/// A message from the broker. None of it can be trusted: anyone who may publish to the exchange has written it.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The number by which to [acknowledge](crate::Consumer::ack) the message.
    pub tag: u64,
    /// The exchange that the message was published to.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// Whether the broker may have delivered the message before.
    pub redelivered: bool,
    /// The properties.
    pub properties: DeliveredProperties,
    /// The body.
    pub body: Vec<u8>,
}

/// Properties of a delivered message, as far as its publisher has set them. Text that is no UTF-8 has replacement
/// characters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveredProperties {
    /// Media type of the body.
    pub content_type: Option<String>,
    /// Headers as JSON. Bytes become text, and tables that are nested too deep the text `…`.
    pub headers: Map<String, Value>,
    /// Id of the request or process that the message belongs to.
    pub correlation_id: Option<String>,
    /// The message's id.
    pub message_id: Option<String>,
    /// Seconds since the Unix epoch.
    pub timestamp: Option<u64>,
    /// AMQP `type`: the kind of message.
    pub kind: Option<String>,
    /// The program that published the message.
    pub app_id: Option<String>,
}

/// The content header of a message.
#[derive(Debug)]
pub(crate) struct ContentHeader {
    /// Bytes of the body that follows, over all its frames.
    pub(crate) body: u64,
    pub(crate) properties: DeliveredProperties,
}

impl ContentHeader {
    /// Reads class, weight, size of the body, flags, and the properties in the order of their flags.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        if reader.u16()? != BASIC {
            return Err(Malformed("content is not of class basic"));
        }
        reader.u16()?; // weight: unused
        let body = reader.u64()?;
        let flags = reader.u16()?;
        let mut fields = Fields { reader, flags };
        let content_type = fields.next(Reader::text)?;
        fields.next(Reader::short_string)?; // content-encoding
        let headers = fields.next(Reader::sized)?.map(table).transpose()?.unwrap_or_default();
        fields.next(Reader::u8)?; // delivery-mode
        fields.next(Reader::u8)?; // priority
        let correlation_id = fields.next(Reader::text)?;
        fields.next(Reader::short_string)?; // reply-to
        fields.next(Reader::short_string)?; // expiration
        let message_id = fields.next(Reader::text)?;
        let timestamp = fields.next(Reader::u64)?;
        let kind = fields.next(Reader::text)?;
        fields.next(Reader::short_string)?; // user-id
        let app_id = fields.next(Reader::text)?;
        let properties =
            DeliveredProperties { content_type, headers, correlation_id, message_id, timestamp, kind, app_id };
        Ok(Self { body, properties })
    }
}

/// The properties that follow, and their flags from the highest bit on.
struct Fields<'a> {
    reader: Reader<'a>,
    flags: u16,
}

impl<'a> Fields<'a> {
    /// Reads the next property, if the message has it.
    fn next<T>(&mut self, read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        let is_set = self.flags & 0x8000 != 0;
        self.flags <<= 1;
        is_set.then(|| read(&mut self.reader)).transpose()
    }
}
