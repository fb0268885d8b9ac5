//! Promises of a running stream, against a server that does exactly what a test says.

use std::pin::pin;

use bytes::{Buf, BufMut, Bytes};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    select,
};

use super::{
    super::framed::{LARGE, SESSION_LIMIT},
    *,
};

/// Our end, with room for `room` bytes either way, and the server's end.
fn stream(room: usize) -> (ReplicationStream<DuplexStream>, DuplexStream) {
    let (ours, theirs) = duplex(room);
    let mut framed = Framed::new(ours);
    framed.set_limit(SESSION_LIMIT);
    (ReplicationStream::new(framed, 7), theirs)
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn wal(position: u64, data: &[u8]) -> Vec<u8> {
    let mut body = vec![b'w'];
    body.put_u64(position);
    body.put_u64(position);
    body.put_i64(0);
    body.put_slice(data);
    message(b'd', &body)
}

/// A status that the server has read: its position, and whether it asks for a reply.
async fn read_status(server: &mut DuplexStream) -> (u64, bool) {
    let mut status = BytesMut::new();
    while status.len() < 39 {
        let mut rest = [0; 39];
        let read = server.read(&mut rest[status.len()..]).await.unwrap();
        assert_ne!(read, 0, "the client closed the connection");
        let from = status.len();
        status.extend_from_slice(&rest[from..from + read]);
    }
    assert_eq!(status[..6], *b"d\0\0\0\x26r");
    status.advance(6);
    let written = status.get_u64();
    assert_eq!((status.get_u64(), status.get_u64()), (written, written));
    (written, status[8] == 1)
}

#[tokio::test]
async fn frames_come_in_order_and_those_received_together_need_no_wait() {
    let (mut stream, mut server) = stream(4096);
    let keepalive = message(b'd', b"k\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\x01");
    server.write_all(&[wal(7, b"first"), wal(8, b"second"), keepalive].concat()).await.unwrap();
    let expected = |position, data| Frame::XLogData { start: Lsn(position), wal_end: Lsn(position), data };
    assert_eq!(stream.next().await.unwrap(), expected(7, Bytes::from_static(b"first")));
    assert_eq!(stream.try_next().unwrap(), Some(expected(8, Bytes::from_static(b"second"))));
    let keepalive = Frame::Keepalive { wal_end: Lsn(9), reply_requested: true };
    assert_eq!(stream.try_next().unwrap(), Some(keepalive));
    assert_eq!(stream.try_next().unwrap(), None);
}

#[tokio::test]
async fn a_status_goes_out_while_nobody_reads() {
    let (mut stream, mut server) = stream(64);
    // The server is stuck writing, because nobody reads.
    let mut stuck = Box::pin(async move {
        server.write_all(&wal(1, &[0; 1000])).await.unwrap();
        server
    });
    select! {
        biased;
        _ = &mut stuck => panic!("the pipe is too wide"),
        result = stream.status(Lsn(5), false) => result.unwrap(),
    }
    let (_, (mut server, status)) = tokio::join!(stream.next(), async {
        let mut server = stuck.await;
        let status = read_status(&mut server).await;
        (server, status)
    });
    assert_eq!(status, (5, false));
    stream.status(Lsn(6), true).await.unwrap();
    assert_eq!(read_status(&mut server).await, (6, true));
}

#[tokio::test]
async fn a_status_never_waits_and_a_thousand_of_them_take_no_more_room_than_two() {
    let (mut stream, mut server) = stream(50); // one status and a part of the next
    stream.status(Lsn(1), false).await.unwrap();
    stream.status(Lsn(2), false).await.unwrap();
    stream.status(Lsn(3), true).await.unwrap();
    for position in 4..1000 {
        stream.status(Lsn(position), false).await.unwrap();
    }
    assert!(stream.framed.outgoing().len() <= 39);
    // The server reads again: the begun status ends, and the newest follows with the question.
    let read = async {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(read_status(&mut server).await);
        }
        statuses
    };
    let (flushed, statuses) = tokio::join!(stream.flush(), read);
    flushed.unwrap();
    assert_eq!(statuses, [(1, false), (2, false), (999, true)]);
}

#[tokio::test]
async fn a_position_never_moves_back() {
    let (mut stream, mut server) = stream(1000);
    for position in [5, 3] {
        stream.status(Lsn(position), false).await.unwrap();
        assert_eq!(read_status(&mut server).await, (5, false));
    }
}

#[tokio::test]
async fn dropping_next_again_and_again_loses_no_frame_and_no_status() {
    let (mut stream, mut server) = stream(7);
    let sent = async {
        for position in 1..=50 {
            server.write_all(&wal(position, &position.to_be_bytes())).await.unwrap();
        }
        let mut last = 0;
        while last < 50 {
            let (position, _) = read_status(&mut server).await;
            assert!(last < position, "a status came twice or out of order");
            last = position;
        }
    };
    let received = async {
        let mut seen = 0;
        while seen < 50 {
            select! {
                biased;
                frame = stream.next() => {
                    let Frame::XLogData { start, data, .. } = frame.unwrap() else { panic!("no keepalive was sent") };
                    seen += 1;
                    assert_eq!((start, &data[..]), (Lsn(seen), &seen.to_be_bytes()[..]));
                    stream.status(start, false).await.unwrap();
                }
                () = tokio::task::yield_now() => {}
            }
        }
        stream.flush().await.unwrap();
    };
    tokio::join!(sent, received);
}

#[tokio::test]
async fn an_error_in_the_stream_keeps_its_sqlstate() {
    let (mut stream, mut server) = stream(1000);
    let error = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0";
    server.write_all(&[wal(1, b""), message(b'E', error)].concat()).await.unwrap();
    stream.next().await.unwrap();
    let error = stream.next().await.unwrap_err();
    assert_eq!(error.sqlstate().unwrap().code(), "57P01");
    assert!(error.connection_lost() && !error.slot_missing());
}

#[tokio::test]
async fn notices_and_changed_settings_are_passed_over() {
    let (mut stream, mut server) = stream(1000);
    let notice = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mby the way\0\0");
    let setting = message(b'S', b"TimeZone\0UTC\0");
    server.write_all(&[notice, setting, message(b'd', b"?later"), wal(1, b"")].concat()).await.unwrap();
    assert!(matches!(stream.next().await.unwrap(), Frame::XLogData { start: Lsn(1), .. }));
}

#[tokio::test]
async fn a_warning_is_handed_out_with_its_sqlstate() {
    let (mut stream, mut server) = stream(1000);
    let warning = b"SWARNUNG\0VWARNING\0C55000\0Mskipped loading publication \"p\"\0\0";
    server.write_all(&[message(b'N', warning), wal(1, b"")].concat()).await.unwrap();
    let Frame::Warning(warning) = stream.next().await.unwrap() else { panic!("no warning") };
    assert!(warning.publication_skipped(), "{warning}");
    assert!(matches!(stream.next().await.unwrap(), Frame::XLogData { start: Lsn(1), .. }));
}

/// Statuses go out while futures are cancelled.
#[tokio::test]
async fn what_nobody_reads_is_passed_over_in_constant_memory_however_large() {
    let (mut stream, mut server) = stream(10_000);
    stream.limit_inserts(20 << 20);
    let sent = async {
        let mut position = 0;
        for kind in *b"MUDIMM" {
            position += 1;
            server.write_all(&wal(position, b"Bfirst")).await.unwrap();
            server.write_all(&wal(position, &[&[kind][..], &[7; 30 << 20]].concat())).await.unwrap();
        }
        server.write_all(&wal(99, b"last")).await.unwrap();
        server
    };
    let received = async {
        let (mut seen, mut oversized, mut status) = (Vec::new(), Vec::new(), 0);
        while seen.last() != Some(&Lsn(99)) {
            status += 1;
            stream.status(Lsn(status), false).await.unwrap();
            select! {
                biased;
                frame = stream.next() => match frame.unwrap() {
                    Frame::XLogData { start, .. } => seen.push(start),
                    Frame::Oversized { bytes, head } => oversized.push((bytes, head)),
                    other => panic!("{other:?}"),
                },
                () = tokio::task::yield_now() => {}
            }
            assert!(stream.framed.capacity() <= 2 * LARGE, "{}", stream.framed.capacity());
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 99].map(Lsn));
        let head = [&b"I"[..], &[7; 511]].concat();
        assert_eq!(oversized, [(1 + (30 << 20), Bytes::from(head))]);
        stream
    };
    let read_statuses = async |server: &mut DuplexStream| {
        let mut statuses = Vec::new();
        server.read_buf(&mut statuses).await.unwrap();
        statuses
    };
    let (mut server, _stream) = tokio::join!(sent, received);
    assert!(!read_statuses(&mut server).await.is_empty(), "statuses went out");
}

#[tokio::test]
async fn an_insert_within_the_limit_comes_whole_and_so_do_large_messages_of_other_kinds() {
    let (mut stream, mut server) = stream(100_000);
    stream.limit_inserts(3 << 20);
    let sent = async {
        for kind in [b'I', b'R', b'?'] {
            server.write_all(&wal(1, &[&[kind][..], &[7; 3 << 20][1..]].concat())).await.unwrap();
        }
    };
    let received = async {
        for kind in [b'I', b'R', b'?'] {
            let Frame::XLogData { data, .. } = stream.next().await.unwrap() else { panic!("no data") };
            assert_eq!((data.first(), data.len()), (Some(&kind), 3 << 20));
        }
    };
    tokio::join!(sent, received);
}

#[tokio::test]
async fn the_end_of_the_stream_and_of_the_connection_are_told_apart() {
    let (mut ended, mut server) = stream(1000);
    server.write_all(&message(b'C', b"COPY 0\0")).await.unwrap();
    assert!(matches!(ended.next().await.unwrap_err(), ReplError::Ended));
    let (mut broken, server) = stream(1000);
    drop(server);
    assert!(matches!(broken.next().await.unwrap_err(), ReplError::Io(_)));
}

#[tokio::test]
async fn a_message_out_of_place_is_an_error() {
    for (tag, body) in [(b'd', &b"w\0\0"[..]), (b'Z', b"I"), (b'R', b"\0\0\0\0"), (b'?', b""), (b'd', b"")] {
        let (mut stream, mut server) = stream(1000);
        server.write_all(&message(tag, body)).await.unwrap();
        assert!(matches!(stream.next().await.unwrap_err(), ReplError::Protocol(_)), "{tag} {body:?}");
    }
}

#[tokio::test]
async fn stopping_sends_the_last_status_and_reads_to_the_end() {
    let (mut stream, mut server) = stream(30);
    stream.status(Lsn(9), false).await.unwrap();
    let server = async {
        // The server is blocked in the middle of a transaction at first.
        server.write_all(&wal(10, &[0; 500])).await.unwrap();
        assert_eq!(read_status(&mut server).await, (9, false));
        let mut rest = [0; 5];
        let _ = pin!(server.read(&mut rest)).await.unwrap();
        assert_eq!(rest, *b"c\0\0\0\x04");
        let goodbye = [message(b'c', b""), message(b'C', b"START_STREAMING\0"), message(b'Z', b"I")].concat();
        server.write_all(&goodbye).await.unwrap();
        let mut last = Vec::new();
        server.read_to_end(&mut last).await.unwrap();
        assert_eq!(last, *b"X\0\0\0\x04");
    };
    tokio::join!(stream.stop(), server);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_whether_it_is_there_and_given_up_when_it_does_not_answer() {
    let (mut stream, mut server) = stream(4096);
    let keepalive = message(b'd', b"k\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0");
    let started = tokio::time::Instant::now();
    select! {
        frame = stream.next() => panic!("{frame:?}"),
        status = read_status(&mut server) => assert_eq!(status, (0, true)),
    }
    assert_eq!(started.elapsed().as_secs(), 10);
    assert!(stream.silent_since().is_some());
    server.write_all(&keepalive).await.unwrap();
    stream.next().await.unwrap();
    assert_eq!(stream.silent_since(), None);

    let answered = tokio::time::Instant::now();
    let error = stream.next().await.unwrap_err();
    assert!(matches!(error, ReplError::Silent(_)) && error.connection_lost(), "{error}");
    assert_eq!(answered.elapsed(), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_while_no_frame_is_wanted_and_no_more_than_a_little_is_read_ahead() {
    let (mut stream, mut server) = stream(1 << 20);
    let frames = wal(7, &[0; 1000]).repeat(500);
    server.write_all(&frames).await.unwrap();
    select! { biased;
        error = stream.silent() => panic!("{error}"),
        () = tokio::time::sleep(LIMIT * 2) => {} // a server with unread bytes is not silent
    }
    assert!(stream.framed.capacity() < LARGE);
    for _ in 0..500 {
        stream.next().await.unwrap();
    }
    let read = tokio::time::Instant::now();
    assert!(matches!(stream.silent().await, ReplError::Silent(_)));
    assert_eq!(read.elapsed(), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_is_told_by_next_whoever_has_noticed_it() {
    let (mut stream, server) = stream(4096);
    drop(server);
    select! { biased;
        error = stream.silent() => panic!("{error}"),
        () = tokio::task::yield_now() => {}
    }
    assert!(matches!(stream.next().await.unwrap_err(), ReplError::Io(_)));
}
