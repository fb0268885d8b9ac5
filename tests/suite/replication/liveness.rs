//! A stream whose other side is slow, silent, frozen or going.

use std::time::Duration;

use harness::{Postgres, SOON, Shutdown};
use pg_replication::{Frame, Lsn, ReplError};
use tokio::time::{Instant, interval, timeout};

use super::{Reader, Source};

/// The server ends a stream whose client is silent for `wal_sender_timeout`. Here nobody reads for three times as
/// long, with more to be read than fits into the sockets, so that the server is stuck sending.
#[tokio::test]
async fn statuses_keep_an_unread_stream_alive() {
    let source = Source::new().await;
    source
        .db
        .batch_execute("INSERT INTO t SELECT id, repeat('x', 10000) FROM generate_series(1, 5000) id")
        .await
        .unwrap();
    let url = format!("{}?options=-c%20wal_sender_timeout%3D1s", source.db.url());
    let session = super::connect(&url).await;
    let mut stream = session.start(source.name(), source.name(), Lsn(0)).await.unwrap();
    let until = Instant::now() + Duration::from_secs(3);
    let mut beat = interval(Duration::from_millis(200));
    while Instant::now() < until {
        beat.tick().await;
        stream.status(Lsn(0), false).await.unwrap();
    }
    assert_eq!(Reader::new(stream).ids().await.len(), 5000);
}

#[tokio::test]
async fn a_silent_client_is_thrown_out_and_told_apart_from_a_refusal() {
    let source = Source::new().await;
    let url = format!("{}?options=-c%20wal_sender_timeout%3D500ms", source.db.url());
    let session = super::connect(&url).await;
    let mut stream = session.start(source.name(), source.name(), Lsn(0)).await.unwrap();
    let error = loop {
        if let Err(error) = stream.next().await {
            break error;
        }
    };
    assert!(error.connection_lost(), "{error}");
}

#[tokio::test]
async fn a_frozen_server_blocks_no_status() {
    let postgres = Postgres::private().start().await;
    let source = Source::on(&postgres).await;
    let mut stream = source.stream().await;
    postgres.pause();
    let statuses = async {
        // First until the sockets are full, then more.
        while timeout(Duration::ZERO, stream.flush()).await.is_ok() {
            stream.status(Lsn(0), false).await.unwrap();
            tokio::task::yield_now().await;
        }
        for _ in 0..10_000 {
            stream.status(Lsn(0), false).await.unwrap();
        }
    };
    timeout(SOON, statuses).await.expect("a status waited for the server");
    postgres.resume();
    stream.flush().await.unwrap();
    source.insert(1..=1).await;
    assert_eq!(Reader::new(stream).ids().await, [1]);
}

#[tokio::test]
async fn a_server_that_shuts_down_ends_the_stream_once_everything_is_acknowledged() {
    let postgres = Postgres::private().start().await;
    let source = Source::on(&postgres).await;
    source.insert(1..=10).await;
    let mut reader = Reader::new(source.stream().await);
    assert_eq!(reader.ids().await.len(), 10);
    let read_on = async {
        loop {
            match reader.stream.next().await {
                Ok(Frame::Keepalive { wal_end, .. }) => reader.stream.status(wal_end, false).await.unwrap(),
                Ok(_) => {}
                Err(error) => break error,
            }
        }
    };
    let (error, ()) = tokio::join!(read_on, postgres.stop(Shutdown::Fast));
    assert!(matches!(error, ReplError::Ended), "{error:?}");
}

#[tokio::test]
async fn a_terminated_walsender_says_so() {
    let source = Source::new().await;
    let session = source.session().await;
    let pid = session.pid();
    let mut stream = session.start(source.name(), source.name(), Lsn(0)).await.unwrap();
    source.db.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    let error = loop {
        if let Err(error) = stream.next().await {
            break error;
        }
    };
    assert_eq!(error.sqlstate().map(|state| state.code()), Some("57P01"), "{error}");
    assert!(error.connection_lost());
}
