//! Ctrl-C and SIGTERM during work in batches: the current batch is finished, and the result is printed. A second signal
//! ends the process at once.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use outbox_service::error::{Kind, RunError};

use super::output::note;

/// Returns the exit code of a process that the signal has ended, as a shell reports it: 128 + the signal's number.
const fn code(kind: SignalKind) -> u8 {
    128_u8.saturating_add(if kind.as_raw_value() == SignalKind::interrupt().as_raw_value() { 2 } else { 15 })
}

/// Listens for both signals, until it is dropped.
#[derive(Debug)]
pub(crate) struct Interrupt {
    first: watch::Receiver<Option<u8>>,
    _listener: JoinSet<()>,
}

impl Interrupt {
    /// Begins to listen.
    pub(crate) fn listen() -> Result<Self, RunError> {
        let cannot = |error| RunError::new(Kind::Internal, "cannot listen for signals").source(error);
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let (mut interrupted, mut terminated) =
            (signal(interrupt).map_err(cannot)?, signal(terminate).map_err(cannot)?);
        let (sender, first) = watch::channel(None);
        let mut listener = JoinSet::new();
        listener.spawn(async move {
            loop {
                let code = tokio::select! {
                    _ = interrupted.recv() => code(interrupt),
                    _ = terminated.recv() => code(terminate),
                };
                if sender.send_replace(Some(code)).is_some() {
                    std::process::exit(code.into());
                }
                note("Ending after the current batch. A second signal ends the command at once.");
            }
        });
        Ok(Self { first, _listener: listener })
    }

    /// Returns the exit code for the signal that has come, if any.
    pub(crate) fn code(&self) -> Option<u8> {
        *self.first.borrow()
    }
}
