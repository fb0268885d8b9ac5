//! Some of a proxy's connections, and what may be done to them.

use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::{Direction, Line, State};

/// Those of a [`Proxy`](super::Proxy)'s connections that begin in one way, now and later; or all of them.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(super) state: watch::Sender<State>,
    saying: Vec<u8>,
}

impl Flow {
    pub(super) fn of_all(state: watch::Sender<State>) -> Self {
        Self { state, saying: Vec::new() }
    }

    /// The connections whose client has said `bytes` in its first 4 KiB, as the startup packet of a replication
    /// connection says `replication\0`, and AMQP's start-ok the name of the connection. Not for TLS.
    #[must_use]
    pub fn saying(&self, bytes: &str) -> Self {
        Self { state: self.state.clone(), saying: bytes.as_bytes().to_vec() }
    }

    /// Resets the open connections, on both sides. What was held is lost.
    pub fn cut(&self) {
        self.state.send_modify(|state| self.lines(state).for_each(|line| line.cut.store(true, Ordering::Relaxed)));
    }

    /// Makes the open connections half-open: the server's side is reset, and the client is not told, now or later. New
    /// connections work. So it looks when the machine behind an address was replaced.
    pub fn strand(&self) {
        self.state.send_modify(|state| self.lines(state).for_each(|line| line.stranded.store(true, Ordering::Relaxed)));
    }

    /// Lets nothing more through in one direction, neither bytes nor the end of a connection.
    pub fn hold(&self, direction: Direction) {
        self.state.send_modify(|state| state.holds.push((self.saying.clone(), direction)));
    }

    /// Undoes [`hold`](Self::hold) on the same flow: what was held is delivered.
    pub fn release(&self, direction: Direction) {
        let held = (self.saying.clone(), direction);
        self.state.send_modify(|state| state.holds.retain(|hold| *hold != held));
    }

    /// Holds both directions: for each side the other one is silent, and there.
    pub fn stall(&self) {
        self.hold(Direction::FromClient);
        self.hold(Direction::FromServer);
    }

    /// Undoes [`stall`](Self::stall).
    pub fn resume(&self) {
        self.release(Direction::FromClient);
        self.release(Direction::FromServer);
    }

    /// Bytes that went through in that direction, on all connections there were.
    pub fn passed(&self, direction: Direction) -> u64 {
        self.sum(|line| line.count(direction).passed.load(Ordering::Relaxed))
    }

    /// Bytes that have come to the proxy and are held. More may wait in the sockets' buffers.
    pub fn held(&self, direction: Direction) -> u64 {
        self.sum(|line| line.count(direction).held.load(Ordering::Relaxed))
    }

    /// How many questions clients have asked, where each waits for the answer to the one before.
    pub fn questions(&self) -> u64 {
        self.sum(|line| line.questions.load(Ordering::Relaxed))
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.lines(&self.state.borrow()).filter(|line| !line.ended.load(Ordering::Relaxed)).count()
    }

    /// How many connections there were.
    pub fn opened(&self) -> usize {
        self.lines(&self.state.borrow()).count()
    }

    fn sum(&self, count: impl Fn(&Line) -> u64) -> u64 {
        self.lines(&self.state.borrow()).map(count).sum()
    }

    fn lines<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Line> {
        state.lines.iter().map(AsRef::as_ref).filter(|line| line.says(&self.saying))
    }
}
