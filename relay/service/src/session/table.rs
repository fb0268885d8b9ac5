//! Runs one operation on the table at a time, beside the session's other work.

use std::sync::Arc;

use outbox_core::{Finished, Request};

use crate::store::{Operation, Store, StoreError};

pub(super) struct Table {
    store: Arc<Store>,
    running: Option<Operation>,
}

impl Table {
    pub(super) fn new(store: Store) -> Self {
        Self { store: Arc::new(store), running: None }
    }

    pub(super) fn start(&mut self, request: Request) {
        debug_assert!(self.running.is_none(), "one operation at a time");
        self.running = Some(Arc::clone(&self.store).perform(request));
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Waits for the operation to finish; forever if there is none. Cancellation-safe: the operation stays in `self`.
    pub(super) async fn next(&mut self) -> Result<Finished, StoreError> {
        let Some(operation) = &mut self.running else { return std::future::pending().await };
        let finished = operation.await;
        self.running = None;
        finished
    }
}
