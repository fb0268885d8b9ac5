//! The open channel without its socket: frames in, bytes and answers out. No I/O, no clock.

use bytes::BytesMut;

use crate::{
    Answer, Notice, Outgoing, PublishError, Verdict,
    deliveries::{Blame, Deliveries},
    encoder::Encoder,
    frame::{Content, Frame},
    method::{self, ACCESS_REFUSED, Method, NOT_FOUND},
    output::Output,
};

/// No further message is begun, and no further body frame written, while so many bytes wait for the socket. A full
/// window of ordinary messages fits into a write or two; more would only be held here instead of in the message.
pub(crate) const OUT_MAX_BYTES: usize = 256 * 1024;

pub(crate) struct Channel<M> {
    encoder: Encoder,
    deliveries: Deliveries<M>,
    /// Exchange of messages that name none.
    exchange: String,
    /// Messages can be published.
    open: bool,
    /// The broker is out of memory or disk.
    blocked: bool,
    /// The broker has stopped this channel.
    stopped: bool,
    /// The broker has closed the channel, and another is to be opened.
    reopens: bool,
    /// A return whose content header has not come yet: code and text.
    returning: Option<(u16, String)>,
    /// Bytes of a returned body that are still to come.
    returning_body: u64,
    /// Methods that wait for the end of the message that is being written: nothing of the channel may come between its frames.
    methods: BytesMut,
    /// For the socket.
    pub(crate) out: Output,
    /// For the caller.
    pub(crate) answers: Vec<Answer>,
    /// The latest about being blocked that the caller does not know.
    pressure: Option<Notice>,
    /// The broker has agreed to end the connection.
    pub(crate) closed: bool,
}

impl<M: Outgoing> Channel<M> {
    /// A channel that has just been opened and put into confirm mode. `exchange` is that of messages that name none.
    pub(crate) fn new(exchange: String, encoder: Encoder, window: usize) -> Self {
        Self {
            encoder,
            deliveries: Deliveries::new(window),
            exchange,
            open: true,
            blocked: false,
            stopped: false,
            reopens: false,
            returning: None,
            returning_body: 0,
            methods: BytesMut::new(),
            out: Output::default(),
            answers: Vec::new(),
            pressure: None,
            closed: false,
        }
    }

    /// A channel that is to be opened, with [`reopen`](Self::reopen), for one message at a time.
    pub(crate) fn for_one_message(exchange: String, encoder: Encoder) -> Self {
        Self { open: false, reopens: true, ..Self::new(exchange, encoder, 1) }
    }

    /// Messages without an answer from the broker.
    pub(crate) fn unanswered(&self) -> usize {
        self.deliveries.unanswered()
    }

    /// Whether the broker has said that it takes no messages for now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked || self.stopped
    }

    pub(crate) fn accept(&mut self, batch: Vec<M>) {
        self.deliveries.accept(batch);
    }

    /// Writes as many messages as may leave now.
    ///
    /// One that was begun is written to its end, whatever has happened meanwhile: RabbitMQ has not forgotten the header when it has
    /// closed the channel, waits for the whole body, and ends the connection (505) over any other frame of the channel.
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
                Err(refused) => {
                    self.deliveries.withdrawn();
                    let verdict = Verdict::Refused { code: refused.code, text: refused.text };
                    self.answers.push(Answer { id: message.id(), verdict });
                }
            }
        }
    }

    /// Something to tell the caller.
    pub(crate) fn has_news(&self) -> bool {
        self.pressure.is_some() || !self.answers.is_empty()
    }

    /// Answers first: they came first, or they make no difference.
    pub(crate) fn take_news(&mut self) -> Option<Notice> {
        if self.answers.is_empty() {
            self.pressure.take()
        } else {
            Some(Notice::Answers(std::mem::take(&mut self.answers)))
        }
    }

    /// Takes a frame from the broker. An error ends the connection.
    pub(crate) fn receive(&mut self, frame: Frame) -> Result<(), PublishError> {
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

    fn receive_method(&mut self, method: Method) -> Result<(), PublishError> {
        match method {
            Method::Ack { tag, multiple } => self.answered(tag, multiple, &Verdict::Confirmed)?,
            Method::Nack { tag, multiple } => self.answered(tag, multiple, &Verdict::Nacked)?,
            Method::Return { code, text } => self.returning = Some((code, text)),
            Method::ChannelClose { code, text } => self.channel_closed(code, text)?,
            Method::ChannelOpenOk => {}
            Method::SelectOk => self.open = true,
            Method::Flow { active } => {
                method::flow_ok(&mut self.methods, self.encoder.channel(), active);
                self.change_pressure(
                    self.blocked,
                    !active,
                    "the broker has stopped the channel (channel.flow)".to_owned(),
                );
            }
            Method::Blocked { reason } => self.change_pressure(true, self.stopped, reason),
            Method::Unblocked => self.change_pressure(false, self.stopped, String::new()),
            Method::ConnectionClose { code, text } => {
                method::connection_close_ok(self.out.buffer());
                return Err(PublishError::connection_closed(code, text));
            }
            Method::ConnectionCloseOk => self.closed = true,
            other => return Err(unexpected(&format!("{other:?}"))),
        }
        Ok(())
    }

    fn answered(&mut self, tag: u64, multiple: bool, verdict: &Verdict) -> Result<(), PublishError> {
        self.deliveries.answered(tag, multiple, verdict, &mut self.answers).map_err(protocol)
    }

    fn change_pressure(&mut self, blocked: bool, stopped: bool, reason: String) {
        let was_blocked = self.is_blocked();
        (self.blocked, self.stopped) = (blocked, stopped);
        if self.is_blocked() != was_blocked {
            let news = if was_blocked { Notice::Unblocked } else { Notice::Blocked { reason } };
            // The caller has not heard of what is over already.
            self.pressure = self.pressure.take().map_or(Some(news), |_| None);
        }
    }

    /// Prepares to open the channel again, unless the reason for its end would end that too.
    fn channel_closed(&mut self, code: u16, text: String) -> Result<(), PublishError> {
        method::channel_close_ok(&mut self.methods, self.encoder.channel());
        (self.returning, self.returning_body) = (None, 0);
        let Self { deliveries, answers, exchange, .. } = self;
        let own = |exchange_of: Option<&[u8]>| exchange_of.is_none_or(|name| name == exchange.as_bytes());
        let is_to_blame =
            |message: &M| message.message().is_ok_and(|message| is_to_blame(own(message.exchange), code, &text));
        match deliveries.channel_closed(code, is_to_blame, answers) {
            Blame::OneOf(suspects) => {
                tracing::debug!(
                    code,
                    text,
                    suspects,
                    "the broker closed the channel; looking for the message at fault"
                );
            }
            Blame::Message(message) if is_to_blame(&message) => {
                self.answers.push(Answer { id: message.id(), verdict: Verdict::Refused { code, text } });
            }
            Blame::Message(_) | Blame::Nobody => {
                let exchange = self.exchange.clone();
                return Err(match code {
                    ACCESS_REFUSED => PublishError::AccessRefused { exchange, text },
                    NOT_FOUND => PublishError::ExchangeMissing { exchange, text },
                    code => PublishError::ChannelClosed { code, text },
                });
            }
        }
        self.open = false;
        self.change_pressure(self.blocked, false, String::new()); // channel.flow was about the channel that is gone
        self.reopens = true;
        Ok(())
    }

    /// Whether the broker has been told that its end of the channel was noticed, and another is to be opened.
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

/// Whether a channel error can be about a message, which goes to the configured exchange or not. That this one is missing or
/// forbidden would be true of every message: an operator's matter. RabbitMQ can also permit or forbid single topics of an exchange,
/// and then names the topic (`rabbit_access_control:check_topic_access`).
fn is_to_blame(own_exchange: bool, code: u16, text: &str) -> bool {
    match code {
        NOT_FOUND => !own_exchange,
        ACCESS_REFUSED => !own_exchange || text.contains("access to topic '"),
        _ => true,
    }
}

fn protocol(error: impl std::fmt::Display) -> PublishError {
    PublishError::Protocol(error.to_string())
}

fn unexpected(what: &str) -> PublishError {
    PublishError::Protocol(format!("{what} was not expected"))
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;
    use crate::{
        message::{Example, example},
        method::CHANNEL,
        wire::{FRAME_OVERHEAD, METHOD},
    };

    fn channel() -> Channel<Example> {
        Channel::new("events".to_owned(), Encoder::new(CHANNEL, "events".to_owned(), "app".to_owned(), 4096), 10)
    }

    fn receive(channel: &mut Channel<Example>, method: Method) {
        channel.receive(Frame { channel: CHANNEL, content: Content::Method(method) }).unwrap();
    }

    #[test]
    fn a_channel_that_was_stopped_and_closed_is_told_to_take_messages_again() {
        let mut channel = channel();
        channel.accept(vec![example(1), example(2)]);
        channel.fill();
        receive(&mut channel, Method::Flow { active: false });
        assert!(matches!(channel.take_news(), Some(Notice::Blocked { .. })));
        receive(&mut channel, Method::ChannelClose { code: 406, text: "PRECONDITION_FAILED".to_owned() });
        assert!(matches!(channel.take_news(), Some(Notice::Unblocked)));
    }

    /// What is written from now on, until there is nothing more: whether it is a body, or else the method's class and method.
    fn written(channel: &mut Channel<Example>) -> Vec<Option<[u8; 4]>> {
        let mut frames = Vec::new();
        loop {
            channel.fill();
            if channel.out.is_empty() {
                return frames;
            }
            let mut out = channel.out.copy_to_bytes(channel.out.remaining());
            while let [kind, _, _, length @ .., _] = &out[..]
                && let Some((length, rest)) = length.split_first_chunk::<4>()
            {
                let length = u32::from_be_bytes(*length) as usize;
                frames.push((*kind == METHOD).then(|| *rest.first_chunk().unwrap()));
                out.advance(length + FRAME_OVERHEAD);
            }
        }
    }

    #[test]
    fn nothing_of_the_channel_comes_between_the_frames_of_a_message() {
        const PUBLISH: [u8; 4] = [0, 60, 0, 40];
        const FLOW_OK: [u8; 4] = [0, 20, 0, 21];
        const CLOSE_OK: [u8; 4] = [0, 20, 0, 41];
        const OPEN: [u8; 4] = [0, 20, 0, 10];
        const SELECT: [u8; 4] = [0, 85, 0, 10];
        let mut channel = channel();
        let missing = Example { exchange: Some("missing".to_owned()), ..example(1) };
        let large = Example { body: Ok(vec![b'x'; 2 * OUT_MAX_BYTES].into()), ..example(2) };
        channel.accept(vec![missing, large]);
        channel.fill();
        assert!(channel.encoder.is_inside_message(), "half of the large one is written");

        receive(&mut channel, Method::Flow { active: false });
        receive(&mut channel, Method::ChannelClose { code: 404, text: "no exchange".to_owned() });

        let mut frames = written(&mut channel);
        assert!(
            frames.ends_with(&[FLOW_OK, CLOSE_OK].map(Some)),
            "another is opened when the broker has counted this one off"
        );
        assert!(channel.waits_to_reopen());
        channel.reopen();
        frames.extend(written(&mut channel));
        let methods: Vec<_> = frames.iter().copied().flatten().collect();
        assert_eq!(methods, [PUBLISH, PUBLISH, FLOW_OK, CLOSE_OK, OPEN, SELECT]);
        assert!(frames.ends_with(&[FLOW_OK, CLOSE_OK, OPEN, SELECT].map(Some)), "after the whole body");

        receive(&mut channel, Method::SelectOk);
        assert_eq!(written(&mut channel).into_iter().flatten().next(), Some(PUBLISH), "they leave again");
    }

    #[test]
    fn a_block_that_ended_before_anybody_heard_of_it_is_no_news() {
        let mut channel = channel();
        receive(&mut channel, Method::Blocked { reason: "low on memory".to_owned() });
        receive(&mut channel, Method::Unblocked);
        assert!(channel.take_news().is_none());
        receive(&mut channel, Method::Blocked { reason: "low on memory".to_owned() });
        assert!(matches!(channel.take_news(), Some(Notice::Blocked { .. })));
        receive(&mut channel, Method::Unblocked);
        assert!(matches!(channel.take_news(), Some(Notice::Unblocked)));
    }
}
