//! systemd's protocol for services.

use std::os::unix::net::UnixDatagram;

use harness::{SOON, Stack, eventually};

/// Reads what has been told so far.
fn heard(socket: &UnixDatagram, told: &mut Vec<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        told.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
}

#[tokio::test]
async fn systemd_is_told_when_the_relay_streams_that_it_lives_and_how_it_fares() {
    let stack = Stack::new().await;
    let path = std::env::temp_dir().join(format!("outbox-notify-{}", stack.db.name()));
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let relay = stack.relay().env("NOTIFY_SOCKET", path.to_str().unwrap()).env("WATCHDOG_USEC", "500000").start().await;
    let mut told = Vec::new();
    for wanted in ["READY=1", "WATCHDOG=1", "STATUS=delivering"] {
        eventually(&format!("{wanted} is told"), SOON, async || {
            heard(&socket, &mut told);
            if told.iter().any(|said| said.contains(wanted)) { Ok(()) } else { Err(told.clone()) }
        })
        .await;
    }
    assert!(relay.stop().await.success());
    heard(&socket, &mut told);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(told.iter().filter(|said| said.contains("READY=1")).count(), 1, "{told:?}");
}
