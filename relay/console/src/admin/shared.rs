//! What every page of the edge has at hand.

use std::sync::Arc;

use outbox_service::observe::Observed;

use super::owed::Desk;
use crate::dashboard::Dashboard;

/// What every page has at hand.
pub(super) struct Shared {
    pub(super) observed: Arc<Observed>,
    /// Name of the database: a label of every metric.
    pub(super) database: String,
    pub(super) desk: Desk,
    pub(super) dashboard: Option<Arc<Dashboard>>,
}
