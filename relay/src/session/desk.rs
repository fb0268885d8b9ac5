//! Runs the store's operations, one at a time, beside the session's other work.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    resync::ScanFrom,
    settle::{Batch, NotWritten},
    snapshot::Snapshot,
    store::{Due, Page, Published, Remedy, Scan, Store, StoreError},
};

type Operation = Pin<Box<dyn Future<Output = Result<Finished, StoreError>> + Send>>;

pub(super) struct Desk {
    store: Arc<Store>,
    running: Option<Operation>,
    whole_pass: bool,
}

/// A finished operation.
pub(super) enum Finished {
    /// Verdicts were written, but for some.
    Settled(Batch, NotWritten),
    /// Verdicts could not be written now, but may be in a moment.
    NotSettled(Batch, StoreError),
    Scanned(ScanFrom, Page),
    Due(Due),
    /// The table could not be read now, but may be in a moment.
    NotScanned(StoreError),
    Snapshot(Snapshot),
    /// What had to be done to the publication.
    Checked(String),
    Published(Published),
}

impl Desk {
    pub(super) fn new(store: Store) -> Self {
        Self { store: Arc::new(store), running: None, whole_pass: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether a scan is under way that may end recovery: the stream must wait for it.
    pub(super) fn runs_whole_pass(&self) -> bool {
        self.whole_pass
    }

    pub(super) fn settle(&mut self, batch: Batch) {
        let store = Arc::clone(&self.store);
        self.run(async move {
            match store.settle(&batch).await {
                Ok(not_written) => Ok(Finished::Settled(batch, not_written)),
                Err(error) if error.remedy() == Remedy::Reconnect => Err(error),
                Err(error) => Ok(Finished::NotSettled(batch, error)),
            }
        });
    }

    pub(super) fn scan(&mut self, from: ScanFrom, scan: Scan) {
        let store = Arc::clone(&self.store);
        self.read(async move { Ok(Finished::Scanned(from, store.pending(scan).await?)) });
        self.whole_pass = from.is_whole_pass();
    }

    pub(super) fn due(&mut self, scan: Scan) {
        let store = Arc::clone(&self.store);
        self.read(async move { Ok(Finished::Due(store.due(scan).await?)) });
    }

    pub(super) fn snapshot(&mut self) {
        let store = Arc::clone(&self.store);
        self.run(async move { Ok(Finished::Snapshot(store.current_snapshot().await?)) });
    }

    pub(super) fn published(&mut self, name: String) {
        let store = Arc::clone(&self.store);
        self.read(async move { Ok(Finished::Published(store.published(name).await?)) });
    }

    pub(super) fn ensure_publication(&mut self, name: String) {
        let store = Arc::clone(&self.store);
        self.read(async move { Ok(Finished::Checked(store.ensure_publication(name).await?)) });
    }

    fn read(&mut self, reading: impl Future<Output = Result<Finished, StoreError>> + Send + 'static) {
        self.run(async move {
            match reading.await {
                Err(error) if matches!(error.remedy(), Remedy::Repeat | Remedy::PassLocks) => {
                    Ok(Finished::NotScanned(error))
                }
                finished => finished,
            }
        });
    }

    fn run(&mut self, operation: impl Future<Output = Result<Finished, StoreError>> + Send + 'static) {
        debug_assert!(self.is_idle(), "one operation at a time");
        self.running = Some(Box::pin(operation));
    }

    /// Waits for the operation to finish; forever if there is none. Cancellation-safe: the operation stays in `self`.
    pub(super) async fn next(&mut self) -> Result<Finished, StoreError> {
        let Some(operation) = &mut self.running else { return std::future::pending().await };
        let finished = operation.await;
        self.running = None;
        self.whole_pass = false;
        finished
    }
}
