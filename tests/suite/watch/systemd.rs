//! systemd's protocol for services.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
};

use harness::{Relay, RelayBuilder, SOON, Stack, eventually, get};

use super::http_port;

/// A socket at which systemd would listen, and what it has been told there.
struct Systemd {
    socket: UnixDatagram,
    name: String,
    told: Vec<String>,
}

impl Systemd {
    fn at(path: &Path) -> Self {
        Self::new(UnixDatagram::bind(path).unwrap(), path.to_str().unwrap().to_owned())
    }

    /// In the abstract namespace, which needs no file.
    fn without_a_file(stack: &Stack) -> Self {
        let name = format!("outbox-notify-{}-{}", stack.db.name(), std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::new(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    fn new(socket: UnixDatagram, name: String) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self { socket, name, told: Vec::new() }
    }

    /// Leaves no room for another datagram.
    fn fill(&self) {
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        let address = self.socket.local_addr().unwrap();
        while sender.send_to_addr(b"filled", &address).is_ok() {}
    }

    /// As a unit of this systemd.
    fn unit(&self, relay: RelayBuilder) -> RelayBuilder {
        relay.env("NOTIFY_SOCKET", &self.name)
    }

    /// What has been told so far.
    fn told(&mut self) -> &[String] {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.told.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        &self.told
    }

    /// Waits until each of these was told, stops the relay, and looks that it was ready once.
    async fn is_told_once_that_it_is_ready(&mut self, relay: Relay, everything: &[&str]) {
        for wanted in everything {
            eventually(&format!("{wanted} is told"), SOON, async || {
                let told = self.told();
                if told.iter().any(|said| said.contains(wanted)) { Ok(()) } else { Err(told.to_vec()) }
            })
            .await;
        }
        assert!(relay.stop().await.success());
        let told = self.told();
        assert_eq!(told.iter().filter(|said| said.contains("READY=1")).count(), 1, "{told:?}");
    }

    /// A relay tells it what systemd wants to hear.
    async fn hears_from_a_relay(&mut self, stack: &Stack) {
        let relay = self.unit(stack.relay()).env("WATCHDOG_USEC", "500000").start().await;
        self.is_told_once_that_it_is_ready(relay, &["READY=1", "WATCHDOG=1", "STATUS=delivering"]).await;
    }
}

/// As `apt` does, which would otherwise wait as long in an upgrade of the package.
#[tokio::test]
async fn who_starts_the_unit_does_not_wait_for_a_server_that_is_away_as_long_as_the_relay_does() {
    let stack = Stack::new().await;
    let mut systemd = Systemd::without_a_file(&stack);
    let relay = systemd.unit(stack.relay()).set("database-url", "postgres://u:secret@127.0.0.1:1/d").spawn();
    systemd.is_told_once_that_it_is_ready(relay, &["STATUS=not connected", "READY=1"]).await;
    let told = systemd.told();
    let place = |what: &str| told.iter().position(|said| said.contains(what));
    assert!(place("READY=1") > place("STATUS=not connected"), "{told:?}");
    let complaints = told.iter().filter(|said| said.contains("STATUS=not connected")).count();
    assert_eq!(complaints, 1, "it is told of changes, not of each second: {told:?}");
}

#[tokio::test]
async fn a_start_that_is_refused_is_never_said_to_be_ready() {
    let stack = Stack::new().await;
    let mut systemd = Systemd::without_a_file(&stack);
    let relay = systemd.unit(stack.relay()).set("database-url", &stack.db.url_as("nobody_by_that_name")).spawn();
    assert!(!relay.exited().await.success());
    let told = systemd.told();
    assert!(!told.iter().any(|said| said.contains("READY=1")), "{told:?}");
}

#[tokio::test]
async fn systemd_is_told_when_the_relay_streams_that_it_lives_and_how_it_fares() {
    let stack = Stack::new().await;
    let path = std::env::temp_dir().join(format!("outbox-notify-{}", stack.db.name()));
    Systemd::at(&path).hears_from_a_relay(&stack).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn systemd_is_told_at_a_socket_in_the_abstract_namespace_too() {
    let stack = Stack::new().await;
    Systemd::without_a_file(&stack).hears_from_a_relay(&stack).await;
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

/// A socket holds some ten datagrams. Whoever waits for room in it does nothing else meanwhile.
#[tokio::test]
async fn a_socket_that_nobody_reads_keeps_no_probe_waiting_and_hears_all_once_it_is_read() {
    let stack = Stack::new().await;
    let mut systemd = Systemd::without_a_file(&stack);
    systemd.fill();
    let relay =
        systemd.unit(stack.relay()).env("WATCHDOG_USEC", "100000").set("http-listen", "127.0.0.1:0").start().await;
    let line = relay.wait_for_log("systemd cannot be told").await;
    assert!(line.contains("temporarily unavailable"), "{line}");
    let port = http_port(&relay).await;
    for path in ["/metrics", "/healthz", "/readyz"] {
        get(port, path).await.unwrap_or_else(|e| panic!("{e}: {}", relay.log_text()));
    }
    systemd.is_told_once_that_it_is_ready(relay, &["READY=1", "WATCHDOG=1", "STATUS=delivering"]).await;
}
