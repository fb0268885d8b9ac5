//! The fuzzer's broker (see `fuzz/README.md`): it says anything at all, in the handshake, to a publisher and to a
//! consumer.

use std::{
    collections::HashSet,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use client_socket::fuzz::{says_itself, server};
use uuid::Uuid;

use crate::{
    AmqpError, ExchangeUse, Message, News, Outgoing, Properties, PublishConfig,
    connect::handshake::shake_hands,
    consume::inbox::{Inbox, Incoming},
    protocol::{
        frame::{next_frame, take_frame},
        method::CHANNEL,
        output::Output,
        wire::put_frame,
    },
    publish::{channel::Channel, encoder::Encoder, opening::Check},
};

/// The least that the protocol allows, so that inputs can be longer.
const FRAME_MAX: usize = 4096;

/// Plays one input: two bytes that say how, and the broker's bytes.
pub fn broker(data: &[u8]) {
    let [how, piece, said @ ..] = data else { return };
    // Raw bytes find mistakes with lengths, and whole frames come further.
    let says = if how & 1 == 0 { Bytes::copy_from_slice(said) } else { frames(said) };
    let piece = usize::from(*piece) + 1;
    match (how & 2 == 0, how & 4 == 0) {
        (true, declare) => handshake(&says, piece, declare),
        (false, true) => confirms(&says, piece, usize::from(how >> 3)),
        (false, false) => deliveries(&says, piece),
    }
}

/// AMQP's frames from pieces of a type, a channel, a length in one byte and a payload.
fn frames(mut pieces: &[u8]) -> Bytes {
    let mut frames = BytesMut::new();
    while let Ok(kind) = pieces.try_get_u8() {
        let channel = pieces.try_get_u8().unwrap_or_default();
        let length = pieces.try_get_u8().unwrap_or_default();
        let (payload, rest) = pieces.split_at(pieces.len().min(length.into()));
        pieces = rest;
        put_frame(&mut frames, kind, channel.into(), |out| out.put_slice(payload));
    }
    frames.freeze()
}

const PASSWORD: &str = "hunter2";

fn handshake(says: &[u8], piece: usize, declare: bool) {
    // A broker that says the password itself may find it among the words that an error repeats.
    let may_show_it = says_itself(says, PASSWORD);
    let config = PublishConfig {
        url: format!("amqp://app:{PASSWORD}@mq/shop").parse().expect("a URL"),
        try_first: None,
        try_last: None,
        exchange: "outbox".to_owned(),
        exchange_use: if declare { ExchangeUse::Declare } else { ExchangeUse::Expect },
        app_id: "fuzz".to_owned(),
        window: 10,
        side_channels: 0,
        confirm_timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        reopen_after: Duration::ZERO,
        prove: false,
        connection_name: "fuzz".to_owned(),
        product: "fuzz".to_owned(),
        version: "0".to_owned(),
    };
    let client = config.client();
    let mut shaking = pin!(shake_hands(&client, server(says, piece), async |handshake| handshake
        .open_channel(&config, Check::Within(None))
        .await));
    // The broker's bytes are all there, so the handshake never waits.
    let Poll::Ready(shaken) = shaking.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the handshake waits for something else than the broker")
    };
    match shaken {
        Ok((opened, _)) => assert!(opened.frame_max >= FRAME_MAX),
        Err(error) => assert!(may_show_it || !format!("{error} {error:?}").contains(PASSWORD), "{error:?}"),
    }
}

/// A message that has little but its id.
#[derive(Clone, Debug)]
struct Named(Uuid, Bytes);

impl Outgoing for Named {
    fn id(&self) -> Uuid {
        self.0
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let exchange: Option<&[u8]> = if self.0.as_u128().is_multiple_of(3) { Some(b"other") } else { None };
        Ok(Message { exchange, routing_key: b"topic", properties: Properties::default(), body: &self.1 })
    }
}

/// Publishes messages 0, 1, 2 … and hears the broker. Each message has at most one confirm, and every confirm names a
/// message.
fn confirms(says: &[u8], piece: usize, window: usize) {
    const MESSAGES: u128 = 40;
    let encoder = Encoder::new(CHANNEL, "outbox".to_owned(), "fuzz".to_owned(), FRAME_MAX);
    let mut channel = Channel::new("outbox".to_owned(), encoder, window);
    let body = Bytes::from_static(&[b'x'; 5000]); // two frames
    let named =
        |number| Named(Uuid::from_u128(number), if number.is_multiple_of(5) { body.clone() } else { Bytes::new() });
    channel.accept((0..MESSAGES).map(named).collect());
    let mut confirmed = HashSet::new();
    let mut received = BytesMut::new();
    for said in says.chunks(piece) {
        channel.fill();
        channel.out.advance(channel.out.remaining());
        received.extend_from_slice(said);
        let heard = hear(&mut channel, &mut received);
        while let Some(news) = channel.take_news() {
            let News::Confirms(confirms) = news else { continue };
            for confirm in confirms {
                assert!(confirm.id.as_u128() < MESSAGES && confirmed.insert(confirm.id), "{confirm:?}");
            }
        }
        if heard.is_err() {
            return;
        }
        assert_eq!(confirmed.len() + channel.unconfirmed(), usize::try_from(MESSAGES).expect("few"), "one is lost");
    }
}

fn hear(channel: &mut Channel<Named>, received: &mut BytesMut) -> Result<(), AmqpError> {
    while let Some(frame) = next_frame(received, FRAME_MAX)? {
        channel.receive(frame)?;
    }
    assert!(received.len() < FRAME_MAX, "more is collected than a frame may have");
    Ok(())
}

/// Consumes whatever the broker delivers. No delivery has more bytes than the broker sent.
fn deliveries(says: &[u8], piece: usize) {
    let (mut inbox, mut received, mut out) = (Inbox::default(), BytesMut::new(), Output::default());
    for said in says.chunks(piece) {
        received.extend_from_slice(said);
        while let Ok(Some(frame)) = take_frame(&mut received, FRAME_MAX, Incoming::read) {
            if inbox.receive(frame, &mut out).is_err() {
                return;
            }
        }
        while let Some(delivery) = inbox.pop() {
            assert!(delivery.body.len() <= says.len(), "bytes from nowhere");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_of_the_fuzzer_keeps_the_promises() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/broker");
        let played: Vec<_> =
            std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path())).collect();
        assert!(played.len() > 20, "{}", played.len());
        played.into_iter().for_each(|seed| super::broker(&seed.unwrap()));
    }
}
