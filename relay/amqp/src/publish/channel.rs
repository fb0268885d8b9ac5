//! The open channel without its socket: frames in, bytes and confirms out. No I/O, no clock.

#[cfg(test)]
mod tests;

use bytes::BytesMut;

use super::{
    confirm::{Confirm, ConfirmKind, News},
    deliveries::{Blame, Deliveries},
    encoder::Encoder,
    message::Outgoing,
    pressure::Pressure,
};
use crate::{
    connect::error::AmqpError,
    protocol::{
        frame::{Content, Frame},
        method::{self, ACCESS_REFUSED, Method, NOT_FOUND},
        output::Output,
    },
};

/// While this many bytes wait for the socket, no further message is begun and no further body frame written. A full
/// window of ordinary messages fits into a write or two, and more bytes would only wait here instead of in their
/// message.
pub(crate) const OUT_MAX_BYTES: usize = 256 * 1024;

pub(crate) struct Channel<M> {
    encoder: Encoder,
    deliveries: Deliveries<M>,
    /// Exchange of messages that name none.
    exchange: String,
    /// Whether messages can be published.
    open: bool,
    pressure: Pressure,
    /// Whether the broker has closed the channel and another is to be opened.
    reopens: bool,
    /// Code and text of a return whose content header has not come yet.
    returning: Option<(u16, String)>,
    /// Bytes of a returned body that have not come yet.
    returning_body: u64,
    /// Methods that wait until the current message is written: no frame of the channel may come between its frames.
    methods: BytesMut,
    /// Bytes for the socket.
    pub(crate) out: Output,
    /// Confirms for the caller.
    pub(crate) confirms: Vec<Confirm>,
    /// Whether the broker has agreed to end the connection.
    pub(crate) closed: bool,
}

impl<M: Outgoing> Channel<M> {
    /// A channel that has just been opened and put into confirm mode. `exchange` is the exchange of messages that name
    /// none.
    pub(crate) fn new(exchange: String, encoder: Encoder, window: usize) -> Self {
        Self {
            encoder,
            deliveries: Deliveries::new(window),
            exchange,
            open: true,
            pressure: Pressure::default(),
            reopens: false,
            returning: None,
            returning_body: 0,
            methods: BytesMut::new(),
            out: Output::default(),
            confirms: Vec::new(),
            closed: false,
        }
    }

    /// A channel for one message at a time. [`reopen`](Self::reopen) opens it.
    pub(crate) fn for_one_message(exchange: String, encoder: Encoder) -> Self {
        Self { open: false, reopens: true, ..Self::new(exchange, encoder, 1) }
    }

    /// How many messages are unconfirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.deliveries.unconfirmed()
    }

    /// Whether the broker has said that it takes no messages for now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.pressure.is_blocked()
    }

    pub(crate) fn accept(&mut self, batch: Vec<M>) {
        self.deliveries.accept(batch);
    }

    /// Writes as many messages as may leave now.
    ///
    /// A message that was begun is written to its end, even if the broker closes the channel meanwhile: RabbitMQ still
    /// waits for the whole body, and ends the connection (505) over any other frame of the channel.
    pub(crate) fn fill(&mut self) {
        while self.out.len() < OUT_MAX_BYTES {
            if self.encoder.is_inside_message() {
                self.encoder.put_body(&mut self.out);
                continue;
            }
            if !self.methods.is_empty() {
                self.out.buffer().extend_from_slice(&self.methods);
                self.methods.clear();
            }
            if !self.open || self.is_blocked() {
                return;
            }
            let Some(message) = self.deliveries.next() else { return };
            match self.encoder.begin(&message, self.out.buffer()) {
                Ok(()) => self.deliveries.published(message),
                Err(unpublishable) => {
                    self.deliveries.withdrawn();
                    let kind = ConfirmKind::Closed { code: unpublishable.code, text: unpublishable.text };
                    self.confirms.push(Confirm { id: message.id(), kind });
                }
            }
        }
    }

    /// Whether there is news for the caller.
    pub(crate) fn has_news(&self) -> bool {
        self.pressure.has_news() || !self.confirms.is_empty()
    }

    /// News for the caller. Confirms go first: they came first, or the order makes no difference.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        if self.confirms.is_empty() {
            self.pressure.take_news()
        } else {
            Some(News::Confirms(std::mem::take(&mut self.confirms)))
        }
    }

    /// Takes a frame from the broker. An error ends the connection.
    pub(crate) fn receive(&mut self, frame: Frame) -> Result<(), AmqpError> {
        // 0 is the connection itself.
        if frame.channel != 0 && frame.channel != self.encoder.channel() {
            return Err(unexpected(&format!("a frame of channel {}", frame.channel)));
        }
        match frame.content {
            Content::Method(method) => self.receive_method(method),
            Content::Header { body, message_id } => {
                let (code, text) = self.returning.take().ok_or_else(|| unexpected("a content header"))?;
                self.returning_body = body;
                self.deliveries.returned(message_id, code, text).map_err(protocol)
            }
            Content::Body(bytes) => {
                self.returning_body =
                    self.returning_body.checked_sub(bytes).ok_or_else(|| unexpected("a content body"))?;
                Ok(())
            }
            Content::Heartbeat => Ok(()),
        }
    }

    fn receive_method(&mut self, method: Method) -> Result<(), AmqpError> {
        match method {
            Method::Ack { tag, multiple } => self.confirmed(tag, multiple, &ConfirmKind::Acked)?,
            Method::Nack { tag, multiple } => self.confirmed(tag, multiple, &ConfirmKind::Nacked)?,
            Method::Return { code, text } => self.returning = Some((code, text)),
            Method::ChannelClose { code, text } => self.channel_closed(code, text)?,
            Method::ChannelOpenOk => {}
            Method::SelectOk => self.open = true,
            Method::Flow { active } => {
                method::flow_ok(&mut self.methods, self.encoder.channel(), active);
                self.pressure.flow(active);
            }
            Method::Blocked { reason } => self.pressure.blocked(reason),
            Method::Unblocked => self.pressure.unblocked(),
            Method::ConnectionClose { code, text } => {
                method::connection_close_ok(self.out.buffer());
                return Err(AmqpError::connection_closed(code, text));
            }
            Method::ConnectionCloseOk => self.closed = true,
            other => return Err(unexpected(&format!("{other:?}"))),
        }
        Ok(())
    }

    fn confirmed(&mut self, tag: u64, multiple: bool, kind: &ConfirmKind) -> Result<(), AmqpError> {
        self.deliveries.confirmed(tag, multiple, kind, &mut self.confirms).map_err(protocol)
    }

    /// Prepares to open the channel again, unless the reason for its end would close the next one too.
    fn channel_closed(&mut self, code: u16, text: String) -> Result<(), AmqpError> {
        method::channel_close_ok(&mut self.methods, self.encoder.channel());
        (self.returning, self.returning_body) = (None, 0);
        let Self { deliveries, confirms, exchange, .. } = self;
        let own = |exchange_of: Option<&[u8]>| exchange_of.is_none_or(|name| name == exchange.as_bytes());
        let is_to_blame =
            |message: &M| message.message().is_ok_and(|message| is_to_blame(own(message.exchange), code, &text));
        match deliveries.channel_closed(code, is_to_blame, confirms) {
            Blame::OneOf(suspects) => {
                tracing::debug!(
                    code,
                    text,
                    suspects,
                    "the broker closed the channel; looking for the message at fault"
                );
            }
            Blame::Message(message) if is_to_blame(&message) => {
                self.confirms.push(Confirm { id: message.id(), kind: ConfirmKind::Closed { code, text } });
            }
            Blame::Message(_) | Blame::Nobody => {
                let exchange = self.exchange.clone();
                return Err(match code {
                    ACCESS_REFUSED => AmqpError::AccessRefused { exchange, text },
                    NOT_FOUND => AmqpError::ExchangeMissing { exchange, text },
                    code => AmqpError::ChannelClosed { code, text },
                });
            }
        }
        self.open = false;
        self.pressure.flow(true); // channel.flow concerned the channel that is gone
        self.reopens = true;
        Ok(())
    }

    /// Whether the broker has the answer to its `channel.close`, and another channel is to be opened.
    pub(crate) fn waits_to_reopen(&self) -> bool {
        self.reopens && self.methods.is_empty() && self.out.is_empty()
    }

    /// Opens the channel again, after [`waits_to_reopen`](Self::waits_to_reopen).
    pub(crate) fn reopen(&mut self) {
        self.reopens = false;
        method::channel_open(&mut self.methods, self.encoder.channel());
        method::confirm_select(&mut self.methods, self.encoder.channel());
    }
}

/// Whether a channel error can be one message's fault. A missing or forbidden configured exchange (`own_exchange`)
/// concerns every message and is an operator's matter, but RabbitMQ can also forbid single topics of an exchange, and
/// then names the topic (`rabbit_access_control:check_topic_access`).
fn is_to_blame(own_exchange: bool, code: u16, text: &str) -> bool {
    match code {
        NOT_FOUND => !own_exchange,
        ACCESS_REFUSED => !own_exchange || text.contains("access to topic '"),
        _ => true,
    }
}

fn protocol(error: impl std::fmt::Display) -> AmqpError {
    AmqpError::Protocol(error.to_string())
}

fn unexpected(what: &str) -> AmqpError {
    AmqpError::Protocol(format!("{what} was not expected"))
}
