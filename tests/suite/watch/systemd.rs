//! systemd's protocol for services.

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use harness::{Relay, SOON, Stack, eventually};

/// Reads what has been told so far.
fn heard(socket: &UnixDatagram, told: &mut Vec<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        told.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
}

/// A relay says at this socket, which goes by this name, what systemd wants to hear.
async fn is_told(stack: &Stack, socket: UnixDatagram, name: &str) {
    socket.set_nonblocking(true).unwrap();
    let relay = stack.relay().env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "500000").start().await;
    tells_once_that_it_is_ready(relay, socket, &["READY=1", "WATCHDOG=1", "STATUS=delivering"]).await;
}

/// What is told until all of that was.
async fn tells_once_that_it_is_ready(relay: Relay, socket: UnixDatagram, everything: &[&str]) -> Vec<String> {
    let mut told = Vec::new();
    for wanted in everything {
        eventually(&format!("{wanted} is told"), SOON, async || {
            heard(&socket, &mut told);
            if told.iter().any(|said| said.contains(wanted)) { Ok(()) } else { Err(told.clone()) }
        })
        .await;
    }
    assert!(relay.stop().await.success());
    heard(&socket, &mut told);
    assert_eq!(told.iter().filter(|said| said.contains("READY=1")).count(), 1, "{told:?}");
    told
}

/// As `apt` does, which would otherwise wait as long in an upgrade of the package.
#[tokio::test]
async fn who_starts_the_unit_does_not_wait_for_a_server_that_is_away_as_long_as_the_relay_does() {
    let stack = Stack::new().await;
    let name = format!("outbox-notify-away-{}-{}", stack.db.name(), std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let relay = stack.relay().env("NOTIFY_SOCKET", &format!("@{name}"));
    let relay = relay.set("database-url", "postgres://u:secret@127.0.0.1:1/d").spawn();
    let told = tells_once_that_it_is_ready(relay, socket, &["STATUS=not connected", "READY=1"]).await;
    let place = |what: &str| told.iter().position(|said| said.contains(what));
    // The sentence changes each second.
    assert!(place("READY=1") > place("STATUS=not connected for 5 s"), "{told:?}");
}

#[tokio::test]
async fn a_start_that_is_refused_is_never_said_to_be_ready() {
    let stack = Stack::new().await;
    let name = format!("outbox-notify-refused-{}-{}", stack.db.name(), std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let relay = stack.relay().env("NOTIFY_SOCKET", &format!("@{name}"));
    let relay = relay.set("database-url", &stack.db.url_as("nobody_by_that_name")).spawn();
    assert!(!relay.exited().await.success());
    let mut told = Vec::new();
    heard(&socket, &mut told);
    assert!(!told.iter().any(|said| said.contains("READY=1")), "{told:?}");
}

#[tokio::test]
async fn systemd_is_told_when_the_relay_streams_that_it_lives_and_how_it_fares() {
    let stack = Stack::new().await;
    let path = std::env::temp_dir().join(format!("outbox-notify-{}", stack.db.name()));
    is_told(&stack, UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap()).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn systemd_is_told_at_a_socket_in_the_abstract_namespace_too() {
    let stack = Stack::new().await;
    let name = format!("outbox-notify-{}-{}", stack.db.name(), std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    is_told(&stack, UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}")).await;
}

#[tokio::test]
async fn that_systemd_cannot_be_told_is_said_less_and_less_often() {
    let stack = Stack::new().await;
    let relay = stack.relay().env("NOTIFY_SOCKET", "/nonexistent/notify").env("WATCHDOG_USEC", "20000").start().await;
    let line = relay.wait_for_log("times=16").await;
    assert!(line.contains("systemd cannot be told") && line.contains("No such file"), "{line}");
    let told = relay.log_text().matches("systemd cannot be told").count();
    assert!((5..8).contains(&told), "{told} times: 1, 2, 4, 8, 16");
}
