//! What every page of the edge has at hand.

use std::sync::Arc;

use outbox_service::observe::Observed;

use super::backlog::BacklogMonitor;
use crate::dashboard::Dashboard;

/// What every page has at hand.
pub(super) struct Shared {
    pub(super) observed: Arc<Observed>,
    /// Name of the database: a label of every metric.
    pub(super) database: String,
    pub(super) backlog: BacklogMonitor,
    pub(super) dashboard: Option<Arc<Dashboard>>,
}
