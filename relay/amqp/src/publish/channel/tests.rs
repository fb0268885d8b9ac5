use bytes::Buf;

use super::*;
use crate::{
    protocol::{
        method::CHANNEL,
        wire::{FRAME_OVERHEAD, METHOD},
    },
    publish::message::{Example, example},
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
    assert!(matches!(channel.take_news(), Some(News::Blocked { .. })));
    receive(&mut channel, Method::ChannelClose { code: 406, text: "PRECONDITION_FAILED".to_owned() });
    assert!(matches!(channel.take_news(), Some(News::Unblocked)));
}

/// The frames that are written from now on: of a method its class and number, of anything else `None`.
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
    assert!(matches!(channel.take_news(), Some(News::Blocked { .. })));
    receive(&mut channel, Method::Unblocked);
    assert!(matches!(channel.take_news(), Some(News::Unblocked)));
}
