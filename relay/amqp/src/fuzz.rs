//! What the fuzzer feeds (see `fuzz/README.md`): a broker that says anything at all, in the handshake and to an open channel.

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
    ExchangeUse, Message, Notice, Outgoing, PublishConfig, PublishError, channel::Channel, encoder::Encoder,
    frame::next_frame, handshake::shake_hands, message::Properties, method::CHANNEL, wire::put_frame,
};

/// The least that the protocol allows, so that inputs can be longer.
const FRAME_MAX: usize = 4096;

/// Plays one input: two bytes that say how, and what the broker says.
pub fn broker(data: &[u8]) {
    let [how, piece, said @ ..] = data else { return };
    // Raw bytes find what is wrong with lengths; whole frames come further.
    let says = if how & 1 == 0 { Bytes::copy_from_slice(said) } else { frames(said) };
    if how & 2 == 0 {
        handshake(&says, usize::from(*piece) + 1, how & 4 == 0);
    } else {
        confirms(&says, usize::from(*piece) + 1, usize::from(how >> 3));
    }
}

/// Pieces, each a type, a channel, a length in one byte and a payload, as AMQP's frames.
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
    // A broker that says the password of its own accord hears it repeated with its other words.
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
    let mut shaking = pin!(shake_hands(&config, server(says, piece)));
    // The broker never keeps anybody waiting.
    let Poll::Ready(shaken) = shaking.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the handshake waits for something else than the broker")
    };
    match shaken {
        Ok(opened) => assert!(opened.frame_max >= FRAME_MAX),
        Err(error) => assert!(may_show_it || !format!("{error} {error:?}").contains(PASSWORD), "{error:?}"),
    }
}

/// A message that only has its name.
#[derive(Clone, Debug)]
struct Named(Uuid, Bytes);

impl Outgoing for Named {
    fn id(&self) -> Uuid {
        self.0
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let exchange: Option<&[u8]> = if self.0.as_u128() % 3 == 0 { Some(b"other") } else { None };
        Ok(Message { exchange, routing_key: b"topic", properties: Properties::default(), body: &self.1 })
    }
}

/// Publishes messages 0, 1, 2 … and hears what the broker says of them. Each has at most one answer, and none that was not published
/// has any.
fn confirms(says: &[u8], piece: usize, window: usize) {
    const MESSAGES: u128 = 40;
    let encoder = Encoder::new(CHANNEL, "outbox".to_owned(), "fuzz".to_owned(), FRAME_MAX);
    let mut channel = Channel::new("outbox".to_owned(), encoder, window);
    let body = Bytes::from_static(&[b'x'; 5000]); // two frames
    let named = |number| Named(Uuid::from_u128(number), if number % 5 == 0 { body.clone() } else { Bytes::new() });
    channel.accept((0..MESSAGES).map(named).collect());
    let mut answered = HashSet::new();
    let mut received = BytesMut::new();
    for said in says.chunks(piece) {
        channel.fill();
        channel.out.advance(channel.out.remaining());
        received.extend_from_slice(said);
        let heard = hear(&mut channel, &mut received);
        while let Some(news) = channel.take_news() {
            let Notice::Answers(answers) = news else { continue };
            for answer in answers {
                assert!(answer.id.as_u128() < MESSAGES && answered.insert(answer.id), "{answer:?}");
            }
        }
        if heard.is_err() {
            return;
        }
        assert_eq!(answered.len() + channel.unanswered(), usize::try_from(MESSAGES).expect("few"), "one is lost");
    }
}

fn hear(channel: &mut Channel<Named>, received: &mut BytesMut) -> Result<(), PublishError> {
    while let Some(frame) =
        next_frame(received, FRAME_MAX).map_err(|malformed| PublishError::Protocol(malformed.to_string()))?
    {
        channel.receive(frame)?;
    }
    assert!(received.len() < FRAME_MAX, "more is collected than a frame may have");
    Ok(())
}
