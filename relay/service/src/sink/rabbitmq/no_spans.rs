//! What stands for spans in a relay that is built without OpenTelemetry: nothing, at no cost.

use std::sync::Arc;

use amqp_publisher::{ConfirmKind, Headers, InvalidHeaders, Peer};
use outbox_core::Event;
use uuid::Uuid;

use super::message::Outbound;
use crate::traces::Traces;

/// No spans.
pub(crate) struct Spans;

impl Spans {
    pub(crate) fn new(_: &Traces, _: &str) -> Self {
        Self
    }

    pub(super) fn connected(&mut self, _: &Peer) {}

    pub(super) fn outbound(&mut self, event: Arc<Event>) -> Outbound {
        Outbound::new(event)
    }

    pub(super) fn answered(&mut self, _: Uuid, _: &ConfirmKind) {}

    pub(super) fn lost(&mut self, _: &str) {}
}

/// A message carries its event's span.
pub(super) struct Continued;

impl Continued {
    pub(super) const NOTHING: Self = Self;

    pub(super) fn put(&self, _: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        Ok(())
    }

    pub(super) fn replaces(&self, _: &str) -> bool {
        false
    }
}
