//! Looks at the slot beside the session's other work.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::store::{SlotLook, Store, StoreError};

type Running = Pin<Box<dyn Future<Output = Result<Option<SlotLook>, StoreError>> + Send>>;

pub(super) struct Slot {
    name: String,
    running: Option<Running>,
}

impl Slot {
    pub(super) fn new(name: String) -> Self {
        Self { name, running: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a look; with `asks_who`, it also finds what keeps the slot from moving on.
    pub(super) fn look(&mut self, store: &Arc<Store>, asks_who: bool) {
        debug_assert!(self.running.is_none(), "one look at a time");
        let (store, name) = (Arc::clone(store), self.name.clone());
        self.running = Some(Box::pin(async move { store.look_at_slot(&name, asks_who).await }));
    }

    /// Waits for the result of the look; forever if none runs. Cancellation-safe.
    pub(super) async fn next(&mut self) -> Result<Option<SlotLook>, StoreError> {
        let Some(look) = &mut self.running else { return std::future::pending().await };
        let seen = look.await;
        self.running = None;
        seen
    }
}
