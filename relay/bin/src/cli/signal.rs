//! SIGTERM, SIGINT and SIGHUP: the first signal asks for a drain, and a second SIGTERM or SIGINT ends the process at
//! once. A second SIGHUP does not, because a terminal that closes may send several.
//!
//! A SIGHUP that was ignored before the start, as by `nohup`, stays ignored.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};

use crate::cli::exit;

/// Listens for signals on a task of its own, so that a second signal works even when everything else hangs.
pub(crate) struct Signals {
    listener: JoinHandle<()>,
    first: oneshot::Receiver<()>,
}

impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_and(!ignores_hang_up(), |code| std::process::exit(code.into()))
    }

    /// Begins to listen, to SIGHUP only if `to_hang_up`. The second signal calls `exit` with the exit code.
    fn listen_and(to_hang_up: bool, exit: impl FnOnce(u8) + Send + 'static) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = if to_hang_up { Some(signal(SignalKind::hangup())?) } else { None };
        let (signalled, first) = oneshot::channel();
        let listener = tokio::spawn(async move {
            tokio::select! {
                _ = next(&mut terminate, &mut interrupt) => {}
                () = received(hang_up.as_mut()) => {}
            }
            let _ = signalled.send(()); // fails if nobody waits any more: the process is about to end
            exit(next(&mut terminate, &mut interrupt).await);
        });
        Ok(Self { listener, first })
    }

    /// Waits for the first signal.
    pub(crate) async fn first(&mut self) {
        if (&mut self.first).await.is_err() {
            std::future::pending::<()>().await; // the listener has ended: no signal will come
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> u8 {
    tokio::select! {
        _ = terminate.recv() => exit::SIGTERM,
        _ = interrupt.recv() => exit::SIGINT,
    }
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP was ignored when the process started: listening to it would end that. Without /proc, the answer is
/// no.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let hang_up = 1 << (SignalKind::hangup().as_raw_value() - 1);
    mask.unwrap_or_default() & hang_up != 0
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use super::*;

    fn send(name: &str) {
        assert!(Command::new("kill").args(["-s", name, &id().to_string()]).status().unwrap().success());
    }

    #[tokio::test]
    async fn the_first_signal_asks_to_stop_and_the_second_exits_with_its_code_unless_it_is_a_hang_up() {
        let (exit, exited) = oneshot::channel();
        let mut signals = Signals::listen_and(true, |code| exit.send(code).unwrap()).unwrap();
        send("TERM");
        signals.first().await;
        send("INT");
        assert_eq!(exited.await.unwrap(), exit::SIGINT);
        drop(signals);

        // This simulates a terminal that closes and sends several SIGHUPs. It is part of the same test, because signals
        // reach every listener of the process.
        let (exit, exited) = oneshot::channel();
        let mut signals = Signals::listen_and(true, |code| exit.send(code).unwrap()).unwrap();
        send("HUP");
        signals.first().await;
        send("HUP");
        send("TERM");
        assert_eq!(exited.await.unwrap(), exit::SIGTERM);
    }
}
