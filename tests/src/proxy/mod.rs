//! A TCP proxy whose connections can be cut, stalled and gated.
//!
//! ```text
//!   client ──▶ FromClient ──▶ server
//!          ◀── FromServer ◀──
//! ```
//!
//! What is held stays in the proxy and in the sockets' buffers, in its order: the other side cannot tell a held
//! connection from a slow one, nor from one whose peer is gone, since its end is held, too.

mod flow;
mod line;
#[cfg(test)]
mod tests;

use std::{net::Ipv4Addr, ops::Deref, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

pub use flow::Flow;
use line::Line;

use crate::ports;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// What the client sends: statements, publishes.
    FromClient,
    /// What the server sends: rows, confirms.
    FromServer,
}

/// A loopback port that forwards to another, through faults. It derefs to the [`Flow`] of all its connections. It runs
/// on the test's runtime, and dropping it cuts them.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    flow: Flow,
    task: JoinHandle<()>,
}

/// Changed in one place and read under its lock, so that what a call of [`Flow`] forbids has ended when it returns.
#[derive(Debug, Default)]
struct State {
    refusing: bool,
    /// What is held: in that direction, on the connections that say those bytes.
    holds: Vec<(Vec<u8>, Direction)>,
    /// What ends a connection when its client says it, and with which last words of the server's.
    endings: Vec<(Vec<u8>, Ending)>,
    /// Every connection there was.
    lines: Vec<Arc<Line>>,
}

/// How a connection ends over what its client says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The server says this, and nothing more is passed on; the client closes.
    Says(Vec<u8>),
    /// Both sides are reset.
    Reset,
}

impl State {
    /// How a connection ends whose client has said `said`, and by then `more`.
    fn ending(&self, said: &[u8], more: &[u8]) -> Option<Ending> {
        self.endings.iter().find_map(|(bytes, ending)| {
            let tail = said.get(said.len().saturating_sub(bytes.len().saturating_sub(1))..).unwrap_or_default();
            let heard = [tail, more].concat();
            heard.windows(bytes.len()).any(|window| window == bytes).then(|| ending.clone())
        })
    }

    /// How many of the last bytes of a client must be remembered.
    fn remembers(&self) -> usize {
        self.endings.iter().map(|(bytes, _)| bytes.len()).max().unwrap_or(0)
    }

    fn holds(&self, line: &Line, direction: Direction) -> bool {
        self.holds.iter().any(|(saying, held)| *held == direction && line.says(saying))
    }
}

impl Proxy {
    /// Forwards to a port of 127.0.0.1.
    pub async fn to(server: u16) -> Self {
        let port = ports::free();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.await.unwrap_or_else(|e| panic!("the proxy cannot listen on port {port}: {e}"));
        let (state, _) = watch::channel(State::default());
        let task = tokio::spawn(serve(listener, server, state.clone()));
        Self { port, flow: Flow::of_all(state), task }
    }

    /// The port to connect to, e.g. by [`Vhost::url_at`](crate::Vhost::url_at).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on new connections are closed at once. Those that are open stay.
    pub fn refuse(&self) {
        self.flow.state.send_modify(|state| state.refusing = true);
    }

    /// From now on a connection ends as soon as its client says `bytes`, which may come in several pieces. Not for TLS.
    pub fn end_over(&self, bytes: &str, ending: Ending) {
        self.flow.state.send_modify(|state| state.endings.push((bytes.as_bytes().to_vec(), ending)));
    }

    /// Undoes every [`end_over`](Self::end_over).
    pub fn end_no_more(&self) {
        self.flow.state.send_modify(|state| state.endings.clear());
    }

    /// Undoes [`refuse`](Self::refuse).
    pub fn accept(&self) {
        self.flow.state.send_modify(|state| state.refusing = false);
    }
}

impl Deref for Proxy {
    type Target = Flow;

    fn deref(&self) -> &Flow {
        &self.flow
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, server: u16, state: watch::Sender<State>) {
    let mut lines = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("a socket that listens accepts");
        if state.borrow().refusing {
            let _ = client.set_zero_linger();
            continue;
        }
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else {
            let _ = client.set_zero_linger();
            continue;
        };
        let line = Arc::new(Line::default());
        state.send_modify(|state| state.lines.push(Arc::clone(&line)));
        lines.spawn(line::forward(line, client, server, state.clone()));
        while lines.try_join_next().is_some() {}
    }
}
