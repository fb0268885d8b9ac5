//! Side channels: each carries one message at a time, so an unconfirmed message delays no other.

use std::time::{Duration, Instant};

use super::{
    channel::{Channel, OUT_MAX_BYTES},
    confirm::Confirm,
    encoder::Encoder,
    message::Outgoing,
};
use crate::{
    connect::error::AmqpError,
    protocol::{frame::Frame, method::CHANNEL, output::Output},
};

/// How long a side channel may leave its message unconfirmed. RabbitMQ 4.0 gives up after 65 s, and nacks.
const PATIENCE: Duration = Duration::from_secs(90);

/// The side channels of one connection, opened when they are needed.
pub(crate) struct Beside<M> {
    channels: Vec<Side<M>>,
    /// Most side channels that may be opened.
    most: u16,
    exchange: String,
    app_id: String,
    frame_max: usize,
}

struct Side<M> {
    channel: Channel<M>,
    /// When the channel got a message while it had none, or its latest confirm.
    since: Instant,
}

impl<M: Outgoing> Beside<M> {
    pub(crate) fn new(most: u16, exchange: String, app_id: String, frame_max: usize) -> Self {
        Self { channels: Vec::new(), most, exchange, app_id, frame_max }
    }

    /// Takes a message over, or gives it back if no side channel may be opened.
    pub(crate) fn accept(&mut self, message: M, now: Instant) -> Result<(), M> {
        if self.most == 0 {
            return Err(message);
        }
        let opened = u16::try_from(self.channels.len()).unwrap_or(u16::MAX);
        if opened < self.most && self.channels.iter().all(|side| side.channel.unconfirmed() > 0) {
            let number = CHANNEL + 1 + opened;
            let encoder = Encoder::new(number, self.exchange.clone(), self.app_id.clone(), self.frame_max);
            let mut channel = Channel::for_one_message(self.exchange.clone(), encoder);
            channel.reopen();
            self.channels.push(Side { channel, since: now });
        }
        let Some(side) = self.channels.iter_mut().min_by_key(|side| side.channel.unconfirmed()) else {
            return Err(message);
        };
        if side.channel.unconfirmed() == 0 {
            side.since = now;
        }
        side.channel.accept(vec![message]);
        Ok(())
    }

    /// Whether the broker has closed a channel that has messages.
    pub(crate) fn waits_to_reopen(&self) -> bool {
        self.channels.iter().any(|side| side.channel.unconfirmed() > 0 && side.channel.waits_to_reopen())
    }

    /// Opens the channels again that [wait for it](Self::waits_to_reopen).
    pub(crate) fn reopen(&mut self) {
        for Side { channel, .. } in &mut self.channels {
            if channel.unconfirmed() > 0 && channel.waits_to_reopen() {
                channel.reopen();
            }
        }
    }

    /// Writes the messages that may leave now.
    pub(crate) fn fill(&mut self, out: &mut Output) {
        for Side { channel, .. } in &mut self.channels {
            if out.len() >= OUT_MAX_BYTES {
                return;
            }
            channel.fill();
            out.append(&mut channel.out);
        }
    }

    /// Takes a frame of a side channel, and adds its confirms to `confirms`.
    pub(crate) fn receive(&mut self, frame: Frame, now: Instant, confirms: &mut Vec<Confirm>) -> Result<(), AmqpError> {
        let place = usize::from(frame.channel.saturating_sub(CHANNEL + 1));
        let Some(Side { channel, since }) = self.channels.get_mut(place) else {
            return Err(AmqpError::Protocol(format!("a frame of channel {} was not expected", frame.channel)));
        };
        channel.receive(frame)?;
        if !channel.confirms.is_empty() {
            *since = now;
        }
        confirms.append(&mut channel.confirms);
        Ok(())
    }

    /// Adds the confirms of messages that could not be written to `confirms`.
    pub(crate) fn take_confirms(&mut self, confirms: &mut Vec<Confirm>) {
        for Side { channel, .. } in &mut self.channels {
            confirms.append(&mut channel.confirms);
        }
    }

    /// Fails once a message has waited for [`PATIENCE`]. The wait begins anew while the broker blocks publishing
    /// (`is_blocked`).
    pub(crate) fn check(&mut self, is_blocked: bool, now: Instant) -> Result<(), AmqpError> {
        for Side { channel, since } in &mut self.channels {
            if is_blocked {
                *since = now;
            }
            if channel.unconfirmed() > 0 && now.duration_since(*since) >= PATIENCE {
                let unconfirmed = channel.unconfirmed();
                return Err(AmqpError::ConfirmTimeout { after: PATIENCE, unconfirmed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BytesMut};

    use super::*;
    use crate::{
        protocol::{
            frame::{Content, next_frame},
            method::Method,
        },
        publish::{
            confirm::ConfirmKind,
            message::{Example, example},
        },
    };

    fn method(beside: &mut Beside<Example>, channel: u16, method: Method) -> Vec<Confirm> {
        let mut confirms = Vec::new();
        beside.receive(Frame { channel, content: Content::Method(method) }, Instant::now(), &mut confirms).unwrap();
        confirms
    }

    fn accept(beside: &mut Beside<Example>, id: u128) {
        assert!(beside.accept(example(id), Instant::now()).is_ok());
    }

    /// The channel numbers of the frames that are written.
    fn written(beside: &mut Beside<Example>) -> Vec<u16> {
        let (mut out, mut channels) = (Output::default(), Vec::new());
        beside.fill(&mut out);
        let mut out = BytesMut::from(out.copy_to_bytes(out.remaining()));
        while let Some(frame) = next_frame(&mut out, 4096).unwrap() {
            channels.push(frame.channel);
        }
        channels
    }

    #[test]
    fn each_message_has_a_channel_of_its_own_which_is_used_again_once_it_is_confirmed() {
        let mut beside = Beside::new(2, String::new(), String::new(), 4096);
        for id in 1..=3 {
            accept(&mut beside, id);
        }
        assert_eq!(written(&mut beside), [2, 2, 3, 3], "each is opened, and put into confirm mode");
        for channel in [2, 3] {
            method(&mut beside, channel, Method::ChannelOpenOk);
            method(&mut beside, channel, Method::SelectOk);
        }
        assert_eq!(written(&mut beside), [2, 2, 2, 3, 3, 3], "a message each; the third waits");
        let confirms = method(&mut beside, 2, Method::Ack { tag: 1, multiple: false });
        assert_eq!(confirms.len(), 1);
        assert_eq!(written(&mut beside), [2, 2, 2], "the third follows");
    }

    #[test]
    fn a_channel_that_the_broker_closes_is_opened_again_for_the_message_that_waits_and_the_one_that_comes() {
        let mut beside = Beside::new(1, String::new(), String::new(), 4096);
        accept(&mut beside, 1);
        accept(&mut beside, 2);
        written(&mut beside);
        for id in 1..=3 {
            method(&mut beside, 2, Method::SelectOk);
            written(&mut beside);
            let confirms = method(&mut beside, 2, Method::ChannelClose { code: 406, text: "too large".to_owned() });
            assert!(matches!(confirms.as_slice(), [Confirm { kind: ConfirmKind::Closed { code: 406, .. }, .. }]));
            assert_eq!(written(&mut beside), [2], "close-ok");
            if id == 2 {
                assert!(!beside.waits_to_reopen(), "nothing waits");
                accept(&mut beside, 3);
            }
            assert_eq!(beside.waits_to_reopen(), id < 3);
            beside.reopen();
            assert_eq!(written(&mut beside).len(), if id < 3 { 2 } else { 0 }, "open, confirm.select");
        }
    }

    #[test]
    fn without_side_channels_a_message_is_given_back_and_one_that_waits_too_long_ends_the_connection() {
        let mut none = Beside::<Example>::new(0, String::new(), String::new(), 4096);
        assert!(none.accept(example(1), Instant::now()).is_err());
        let mut beside = Beside::new(1, String::new(), String::new(), 4096);
        accept(&mut beside, 1);
        let late = Instant::now() + PATIENCE;
        assert!(beside.check(true, late).is_ok(), "the broker has said that it takes nothing");
        assert!(beside.check(false, late + PATIENCE).is_err());
    }
}
