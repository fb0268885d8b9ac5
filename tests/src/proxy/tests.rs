use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{SOON, eventually};

/// A server that says everything again, until its client ends.
async fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = socket.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    port
}

async fn proxy() -> Proxy {
    Proxy::to(echo().await).await
}

async fn client(proxy: &Proxy, name: &str) -> TcpStream {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
    assert_eq!(ask(&mut client, name).await.unwrap(), name);
    client
}

async fn ask(client: &mut TcpStream, text: &str) -> std::io::Result<String> {
    client.write_all(text.as_bytes()).await?;
    hear(client, text.len()).await
}

async fn hear(client: &mut TcpStream, count: usize) -> std::io::Result<String> {
    let mut heard = Vec::new();
    while heard.len() < count {
        if client.read_buf(&mut heard).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8(heard).unwrap())
}

async fn wait_for(what: &str, expected: u64, seen: impl Fn() -> u64) {
    eventually(what, SOON, async || if seen() == expected { Ok(()) } else { Err(seen()) }).await;
}

#[tokio::test]
async fn it_counts_the_questions_of_clients_that_wait_for_each_answer() {
    let proxy = proxy().await;
    let mut one = client(&proxy, "one").await;
    let _two = client(&proxy, "two").await;
    for text in ["more", "and more"] {
        ask(&mut one, text).await.unwrap();
    }
    assert_eq!((proxy.saying("one").questions(), proxy.questions()), (3, 4));
}

#[tokio::test]
async fn it_forwards_any_amount_both_ways_and_counts() {
    let proxy = proxy().await;
    let (mut from, mut to) = client(&proxy, "hello").await.into_split();
    let flood: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let sent = flood.clone();
    let writer = tokio::spawn(async move {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut heard = Vec::new();
    from.read_to_end(&mut heard).await.unwrap();
    writer.await.unwrap();
    assert!(heard == flood, "other bytes came back");
    let bytes = flood.len() as u64 + 5;
    assert_eq!((proxy.passed(Direction::FromClient), proxy.passed(Direction::FromServer)), (bytes, bytes));
    wait_for("the end of one side ends both", 0, || proxy.open() as u64).await;
    assert_eq!(proxy.opened(), 1);
}

#[tokio::test]
async fn what_is_held_is_delivered_when_it_is_released_and_not_before() {
    let proxy = proxy().await;
    let mut client = client(&proxy, "").await;
    for held in [Direction::FromClient, Direction::FromServer] {
        proxy.hold(held);
        client.write_all(b"abc").await.unwrap();
        wait_for("three bytes are held", 3, || proxy.held(held)).await;
        assert_eq!(client.try_read(&mut [0; 3]).unwrap_err().kind(), ErrorKind::WouldBlock);
        proxy.release(held);
        assert_eq!(hear(&mut client, 3).await.unwrap(), "abc");
        assert_eq!(proxy.held(held), 0);
    }
    assert_eq!((proxy.passed(Direction::FromClient), proxy.passed(Direction::FromServer)), (6, 6));
}

#[tokio::test]
async fn a_stalled_line_keeps_even_its_end_to_itself() {
    let proxy = proxy().await;
    let mut gone = client(&proxy, "a").await;
    proxy.stall();
    gone.write_all(b"unheard").await.unwrap();
    drop(gone);
    let mut late = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
    late.write_all(b"later").await.unwrap();
    wait_for("both wait", 12, || proxy.held(Direction::FromClient)).await;
    assert_eq!((proxy.open(), proxy.passed(Direction::FromClient)), (2, 1));
    proxy.resume();
    assert_eq!(hear(&mut late, 5).await.unwrap(), "later");
    wait_for("the first is gone", 1, || proxy.open() as u64).await;
}

#[tokio::test]
async fn a_cut_resets_what_is_open_and_drops_what_is_held() {
    let proxy = proxy().await;
    let mut one = client(&proxy, "one").await;
    proxy.hold(Direction::FromServer);
    one.write_all(b"more").await.unwrap();
    wait_for("the answer is held", 4, || proxy.held(Direction::FromServer)).await;
    proxy.cut();
    assert_eq!(hear(&mut one, 1).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_for("it is closed", 0, || proxy.open() as u64).await;
    proxy.release(Direction::FromServer);
    client(&proxy, "another").await;
}

#[tokio::test]
async fn it_refuses_and_accepts_again_and_leaves_the_open_ones_alone() {
    let proxy = proxy().await;
    let mut open = client(&proxy, "first").await;
    proxy.refuse();
    let mut refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
    assert!(ask(&mut refused, "hello").await.is_err());
    assert_eq!(ask(&mut open, "still").await.unwrap(), "still");
    proxy.accept();
    client(&proxy, "second").await;
}

#[tokio::test]
async fn one_connection_is_held_and_cut_by_what_it_says_and_the_others_go_on() {
    let proxy = proxy().await;
    let one = proxy.saying("one\0");
    let (mut first, mut second) = (client(&proxy, "I am one\0").await, client(&proxy, "I am two\0").await);
    one.hold(Direction::FromServer);
    first.write_all(b"abc").await.unwrap();
    assert_eq!(ask(&mut second, "hello").await.unwrap(), "hello");
    wait_for("its answer is held", 3, || one.held(Direction::FromServer)).await;
    assert_eq!((one.opened(), proxy.saying("two\0").held(Direction::FromServer)), (1, 0));
    one.cut();
    assert!(hear(&mut first, 3).await.is_err());
    assert_eq!(ask(&mut second, "hello").await.unwrap(), "hello");
}

#[tokio::test]
async fn a_server_that_is_not_there_ends_the_connection() {
    let proxy = Proxy::to(ports::free()).await;
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
    assert!(ask(&mut client, "hello").await.is_err());
}

#[tokio::test]
async fn a_stranded_client_hears_nothing_more_and_a_new_one_is_served() {
    let proxy = proxy().await;
    let mut old = client(&proxy, "old").await;
    proxy.strand();
    old.write_all(b"hello?").await.unwrap();
    client(&proxy, "new").await;
    assert_eq!(old.try_read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(proxy.passed(Direction::FromClient), 6);
    proxy.cut();
    assert!(hear(&mut old, 1).await.is_err());
}

#[tokio::test]
async fn a_connection_ends_over_what_its_client_says_with_these_words_or_by_a_reset_and_others_go_on() {
    let proxy = proxy().await;
    proxy.end_over("fatal", Ending::Says(b"bye".to_vec()));
    proxy.end_over("killer", Ending::Reset);
    let (mut other, mut client) = (client(&proxy, "other").await, client(&proxy, "one").await);
    client.write_all(b"so fa").await.unwrap();
    assert_eq!(hear(&mut client, 5).await.unwrap(), "so fa");
    client.write_all(b"tal it is").await.unwrap();
    assert_eq!(hear(&mut client, 3).await.unwrap(), "bye");
    drop(client);
    let mut client = self::client(&proxy, "two").await;
    assert!(ask(&mut client, "killer").await.is_err());
    assert_eq!(ask(&mut other, "hello").await.unwrap(), "hello");
    proxy.end_no_more();
    assert_eq!(ask(&mut other, "killer").await.unwrap(), "killer");
}
