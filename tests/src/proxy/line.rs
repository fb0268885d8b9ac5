//! One connection through a proxy.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
};

use super::{Direction, Ending, State};
use crate::SOON;

/// Enough for a startup packet, or for AMQP's start-ok with all its client properties.
const BEGINNING_BYTES: usize = 4096;

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct Line {
    beginning: Mutex<Vec<u8>>,
    from_client: Count,
    from_server: Count,
    /// How often the client has spoken first or after the server.
    pub(super) questions: AtomicU64,
    client_speaks: AtomicBool,
    pub(super) cut: AtomicBool,
    pub(super) stranded: AtomicBool,
    pub(super) ended: AtomicBool,
    /// How it ends, once its client has said what ends it.
    ending: Mutex<Option<Ending>>,
}

/// Bytes in one direction.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) held: AtomicU64,
    pub(super) passed: AtomicU64,
}

impl Line {
    /// Whether the client has said `bytes` in the beginning. Nobody needs to say nothing.
    pub(super) fn says(&self, bytes: &[u8]) -> bool {
        let beginning = self.beginning.lock().expect("no panic while locked");
        bytes.is_empty() || beginning.windows(bytes.len()).any(|window| window == bytes)
    }

    pub(super) fn count(&self, direction: Direction) -> &Count {
        match direction {
            Direction::FromClient => &self.from_client,
            Direction::FromServer => &self.from_server,
        }
    }

    fn listen(&self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.client_speaks.swap(true, Ordering::Relaxed) {
            self.questions.fetch_add(1, Ordering::Relaxed);
        }
        let mut beginning = self.beginning.lock().expect("no panic while locked");
        let room = BEGINNING_BYTES - beginning.len();
        beginning.extend(bytes.iter().take(room));
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn is_stranded(&self) -> bool {
        self.stranded.load(Ordering::Relaxed)
    }
}

/// Forwards until both sides have ended, one of them broke, or the line is cut.
pub(super) async fn forward(
    line: Arc<Line>,
    mut client: TcpStream,
    mut server: TcpStream,
    state: watch::Sender<State>,
) {
    let mut fate = state.subscribe();
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = Pipe { line: &line, direction: Direction::FromClient, state: state.subscribe() };
        let answers = Pipe { line: &line, direction: Direction::FromServer, state: state.subscribe() };
        tokio::select! {
            biased;
            _ = fate.wait_for(|_| line.is_cut() || line.is_stranded()) => Err(io::ErrorKind::ConnectionReset.into()),
            ended = async { tokio::try_join!(requests.run(from_client, to_server), answers.run(from_server, to_client)) } => ended,
        }
    };
    let ending = line.ending.lock().expect("no panic while locked").take();
    if let Some(Ending::Says(words)) = &ending {
        let _ = server.set_zero_linger();
        let _ = client.write_all(words).await;
        // Until it closes: what is not read would be answered by a reset, and the words be lost.
        let read_on = async { while client.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {} };
        let _ = tokio::time::timeout(SOON, read_on).await;
    } else if ended.is_err() {
        // Closing then resets.
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
    drop(server);
    if line.is_stranded() {
        let _ = fate.wait_for(|_| line.is_cut()).await;
    }
    drop(client);
    line.ended.store(true, Ordering::Relaxed);
}

/// One direction of a line.
struct Pipe<'a> {
    line: &'a Line,
    direction: Direction,
    state: watch::Receiver<State>,
}

impl Pipe<'_> {
    /// An error is the reader's: its side broke, and the other has to learn that.
    async fn run(mut self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let _ = to.as_ref().set_nodelay(true);
        let mut buffer = vec![0; 64 * 1024];
        let mut said = Vec::new();
        loop {
            let read = read(&from, &mut buffer).await;
            let bytes = buffer.get(..*read.as_ref().unwrap_or(&0)).unwrap_or_default();
            if self.direction == Direction::FromClient {
                self.line.listen(bytes);
                let (ending, remembers) = {
                    let state = self.state.borrow();
                    (state.ending(&said, bytes), state.remembers())
                };
                if ending.is_some() {
                    *self.line.ending.lock().expect("no panic while locked") = ending;
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                said.extend_from_slice(bytes);
                said.drain(..said.len().saturating_sub(remembers));
            } else if !bytes.is_empty() {
                self.line.client_speaks.store(false, Ordering::Relaxed);
            }
            if !self.pass(bytes, &to).await {
                // That side broke. Its own direction will tell, as soon as it may.
                return Ok(());
            }
            if read? == 0 {
                let _ = to.shutdown().await;
                return Ok(());
            }
        }
    }

    /// Whether all of `bytes` (none: the end of the connection) went through.
    async fn pass(&mut self, mut bytes: &[u8], to: &WriteHalf<'_>) -> bool {
        let count = self.line.count(self.direction);
        count.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        loop {
            let (line, direction) = (self.line, self.direction);
            if to.writable().await.is_err() || self.state.wait_for(|state| !state.holds(line, direction)).await.is_err()
            {
                return false;
            }
            let state = self.state.borrow(); // nobody can hold or cut the line until this is dropped
            if line.is_cut() || line.is_stranded() {
                return false;
            }
            if state.holds(line, direction) {
                continue;
            }
            if bytes.is_empty() {
                return true;
            }
            match to.try_write(bytes) {
                Ok(written) => {
                    count.held.fetch_sub(written as u64, Ordering::Relaxed);
                    count.passed.fetch_add(written as u64, Ordering::Relaxed);
                    bytes = bytes.get(written..).unwrap_or_default();
                    if bytes.is_empty() {
                        return true;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }
}

async fn read(from: &ReadHalf<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
