//! State that every page of the edge shares.

use std::sync::Arc;

use outbox_service::observe::Observed;

use super::backlog::BacklogMonitor;
use crate::dashboard::Dashboard;

/// State that every page shares.
pub(super) struct Shared {
    pub(super) observed: Arc<Observed>,
    /// Name of the database, a label of every metric.
    pub(super) database: String,
    pub(super) backlog: BacklogMonitor,
    pub(super) dashboard: Option<Arc<Dashboard>>,
}
