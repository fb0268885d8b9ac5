//! Promises of the framing, over a socket that delivers and takes what a test says.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadBuf, duplex};

use super::*;

/// A socket that plays a script: pieces that arrive one a read, with pauses (empty pieces) between them, and how many
/// bytes each write takes.
#[derive(Debug, Default)]
struct Script {
    arriving: VecDeque<Vec<u8>>,
    takes: VecDeque<usize>,
    taken: Vec<u8>,
    reads: usize,
}

impl AsyncRead for Script {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.arriving.pop_front() else { return Poll::Ready(Ok(())) };
        if piece.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        buf.put_slice(&piece);
        self.reads += 1;
        if !rest.is_empty() {
            self.arriving.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let takes = self.takes.pop_front().unwrap_or(usize::MAX).min(buf.len());
        if takes == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.taken.extend_from_slice(&buf[..takes]);
        Poll::Ready(Ok(takes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn over(arriving: impl IntoIterator<Item = Vec<u8>>) -> Framed<Script> {
    let mut framed = Framed::new(Script { arriving: arriving.into_iter().collect(), ..Script::default() });
    framed.set_limit(SESSION_LIMIT);
    framed
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Polls a future once, and drops it.
async fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn one_read_delivers_many_messages() {
    let sent: Vec<u8> = (0..100).flat_map(|n| message(b'd', &[n; 300])).collect();
    let mut framed = over([sent]);
    run(async {
        for n in 0..100 {
            assert_eq!(framed.read().await.unwrap()[5..], [n; 300]);
        }
    });
    assert_eq!(framed.socket.reads, 1);
}

#[test]
fn a_buffer_is_used_again_once_its_messages_are_dropped() {
    let mut framed = over((0..1000_u32).map(|_| message(b'd', &[0; 5000])));
    run(async {
        let first = framed.read().await.unwrap().as_ptr();
        for _ in 1..1000 {
            let next = framed.read().await.unwrap().as_ptr();
            assert!(first.addr().abs_diff(next.addr()) < 2 * CHUNK, "moved to another buffer");
        }
    });
}

#[test]
fn messages_that_are_kept_stay_as_they_were() {
    let mut framed = over((0..200_u8).map(|n| message(b'd', &[n; 3000])));
    run(async {
        let mut kept: Vec<Bytes> = Vec::new();
        for _ in 0..200 {
            kept.push(framed.read().await.unwrap().freeze());
        }
        for (n, message) in (0..200_u8).zip(kept) {
            assert_eq!(message[5..], [n; 3000]);
        }
    });
}

#[test]
fn a_length_alone_reserves_no_memory() {
    let mut framed = over([[&b"d\x3f\xff\xff\xff"[..], &[0; 1000]].concat(), vec![]]);
    run(async {
        assert!(poll_once(framed.read()).await.is_none());
        assert!(framed.incoming.capacity() <= 4 * CHUNK, "{}", framed.incoming.capacity());
    });
}

#[test]
fn memory_follows_what_has_arrived_and_is_given_back_after_a_large_message() {
    let large = message(b'd', &vec![7; 40 << 20]);
    let mut framed = over(large.chunks(100_000).map(<[u8]>::to_vec).chain([message(b'd', b"small"), vec![]]));
    run(async {
        let mut arrived = 0;
        while arrived < large.len() {
            poll_fn(|cx| framed.poll_read(cx)).await.unwrap();
            arrived = framed.incoming.len();
            assert!(framed.incoming.capacity() <= 2 * arrived + 4 * CHUNK, "{}", framed.incoming.capacity());
        }
        assert_eq!(framed.take().unwrap().unwrap(), large);
        assert_eq!(framed.read().await.unwrap(), message(b'd', b"small"));
        assert!(framed.incoming.capacity() <= 4 * CHUNK, "{}", framed.incoming.capacity());
    });
}

#[test]
fn a_large_message_is_alone_in_its_buffer() {
    let large = message(b'd', &vec![7; 10 * CHUNK]);
    let mut framed = over([[large.clone(), message(b'd', &[8; 10])].concat()]);
    run(async {
        assert_eq!(framed.read().await.unwrap(), large);
        assert!(framed.incoming.is_empty());
        assert_eq!(framed.read().await.unwrap()[5..], [8; 10]);
    });
}

#[test]
fn an_impossible_length_is_refused() {
    for (limit, length) in [(LOGIN_LIMIT, 100_000_u32), (SESSION_LIMIT, 0x7fff_ffff), (SESSION_LIMIT, 3)] {
        let mut framed = over([[&b"R"[..], &length.to_be_bytes()[..]].concat()]);
        framed.set_limit(limit);
        let error = run(framed.read()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn a_closed_connection_is_an_error_also_in_the_middle_of_a_message() {
    for arrived in [&b""[..], b"d\0\0", b"d\0\0\0\x09ab"] {
        let pieces = if arrived.is_empty() { vec![] } else { vec![arrived.to_vec()] };
        assert_eq!(run(over(pieces).read()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn what_the_server_said_last_is_read_although_writing_fails() {
    let (ours, mut theirs): (DuplexStream, DuplexStream) = duplex(1000);
    let mut framed = Framed::new(ours);
    run(async {
        theirs.write_all(&message(b'E', b"bye")).await.unwrap();
        drop(theirs);
        framed.outgoing().extend_from_slice(b"status");
        assert_eq!(framed.read().await.unwrap(), message(b'E', b"bye"));
        assert!(framed.read().await.is_err());
    });
}

proptest! {
    /// The bytes are cut anywhere, and any part of a message has come when it is passed over.
    #[test]
    fn a_message_that_is_passed_over_takes_nothing_else_with_it(
        messages in vec((any::<bool>(), LARGE - 10..LARGE + 60), 1..6),
        cuts in vec(1..50_000_usize, 1..60),
    ) {
        let sent: Vec<Vec<u8>> = (1..).zip(&messages).map(|(n, (_, size))| message(b'd', &vec![n; *size])).collect();
        let is_large = |sent: &[u8]| sent.len() > LARGE;
        let expected: Vec<&Vec<u8>> =
            sent.iter().zip(&messages).filter(|(sent, (unwanted, _))| !(*unwanted && is_large(sent))).map(|(sent, _)| sent).collect();
        let mut stream = [sent.concat(), message(b'Z', b"")].concat();
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if stream.is_empty() {
                break;
            }
            let rest = stream.split_off((*cut).min(stream.len()));
            pieces.push(std::mem::replace(&mut stream, rest));
        }
        let mut framed = over(pieces);
        let read = run(async {
            let mut read: Vec<BytesMut> = Vec::new();
            loop {
                while let Some(message) = framed.take().unwrap() {
                    if message[0] == b'Z' {
                        return read;
                    }
                    read.push(message);
                }
                // Once the first byte of its body is here.
                let unwanted = framed.large().unwrap().and_then(|(_, here)| here.get(5)).is_some_and(|n| messages[usize::from(*n) - 1].0);
                if unwanted {
                    framed.pass_over().unwrap();
                } else {
                    poll_fn(|cx| framed.poll_read(cx)).await.unwrap();
                }
            }
        });
        prop_assert_eq!(read.iter().map(|message| message.to_vec()).collect::<Vec<_>>(), expected.into_iter().cloned().collect::<Vec<_>>());
    }

    /// The bytes are cut anywhere, and futures are dropped anywhere.
    #[test]
    fn every_message_comes_whole_and_in_order_whatever_is_cancelled(
        bodies in vec(vec(any::<u8>(), 0..50), 1..20),
        cuts in vec(0..30_usize, 1..40),
        takes in vec(0..7_usize, 0..40),
        drops in vec(any::<bool>(), 0..100),
    ) {
        let sent: Vec<Vec<u8>> = bodies.iter().map(|body| message(b'd', body)).collect();
        let mut stream = sent.concat();
        let mut pieces = VecDeque::new(); // empty ones are pauses
        for cut in cuts {
            let rest = stream.split_off(cut.min(stream.len()));
            pieces.push_back(std::mem::replace(&mut stream, rest));
        }
        pieces.push_back(stream);
        let mut framed = Framed::new(Script { arriving: pieces, takes: takes.into(), ..Script::default() });
        let written = b"what is to be written, in order and once".repeat(3);
        framed.outgoing().extend_from_slice(&written);
        let mut drops = drops.into_iter();
        let read = run(async {
            let mut read = Vec::new();
            while read.len() < sent.len() {
                if drops.next() == Some(true) {
                    read.extend(poll_once(framed.read()).await.map(Result::unwrap));
                } else {
                    read.push(framed.read().await.unwrap());
                }
            }
            while drops.next() == Some(true) {
                poll_once(framed.flush()).await;
            }
            framed.flush().await.unwrap();
            read
        });
        prop_assert_eq!(read, sent);
        prop_assert_eq!(framed.socket.taken, written);
    }
}
