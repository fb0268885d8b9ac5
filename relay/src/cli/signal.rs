//! SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};

use crate::cli::exit;

/// Listens to the signals on a task of its own, so that a second signal works even when everything else hangs.
pub(crate) struct Signals {
    listener: JoinHandle<()>,
    first: oneshot::Receiver<()>,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_and(|code| std::process::exit(code.into()))
    }

    /// Calls `exit` with the exit code on the second signal.
    fn listen_and(exit: impl FnOnce(u8) + Send + 'static) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (told, first) = oneshot::channel();
        let listener = tokio::spawn(async move {
            next(&mut terminate, &mut interrupt).await;
            let _ = told.send(()); // an error: nobody waits any more, because the process is about to end
            exit(next(&mut terminate, &mut interrupt).await);
        });
        Ok(Self { listener, first })
    }

    /// Ready at the first signal.
    pub(crate) async fn first(&mut self) {
        if (&mut self.first).await.is_err() {
            std::future::pending::<()>().await; // the listener is gone: no signal can come
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

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use super::*;

    fn send(name: &str) {
        assert!(Command::new("kill").args(["-s", name, &id().to_string()]).status().unwrap().success());
    }

    #[tokio::test]
    async fn the_first_signal_asks_to_stop_and_the_second_exits_with_its_code() {
        let (exit, exited) = oneshot::channel();
        let mut signals = Signals::listen_and(|code| exit.send(code).unwrap()).unwrap();
        send("TERM");
        signals.first().await;
        send("INT");
        assert_eq!(exited.await.unwrap(), exit::SIGINT);
    }
}
