//! `/healthz` and `/readyz`, for supervisors and people.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{extract::State, http::StatusCode};
use outbox_service::observe::{PULSE_LIMIT, Readiness};
use tokio::time::timeout;

use super::{backlog::sentence, shared::Shared};
use crate::format::{age, exact};

/// Longest wait of a probe for the database: Kubernetes gives a probe one second by default.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether the relay's loop is alive. A supervisor should restart a relay for nothing else: any other restart makes an
/// outage longer.
pub(super) async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    if shared.observed.is_alive() {
        (StatusCode::OK, "alive\n".to_owned())
    } else {
        let (ago, limit) = (age(shared.observed.since_pulse()), exact(PULSE_LIMIT));
        let text = format!("the relay's loop has not turned for {ago} (more than {limit}): it hangs, restart it\n");
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

/// Whether this relay delivers events, or is a standby of one that does.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    let readiness = Readiness::of(&shared.observed.view(), Instant::now());
    if readiness.is_ready() {
        return (StatusCode::OK, format!("{}\n", readiness.sentence()));
    }
    let health = timeout(PATIENCE, shared.backlog.health()).await.ok().flatten();
    let waiting = health.as_ref().map(sentence).unwrap_or_default();
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}{waiting}\n", readiness.sentence()))
}
