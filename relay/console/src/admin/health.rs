//! `/healthz` and `/readyz`: for supervisors and for people.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{extract::State, http::StatusCode};
use outbox_service::observe::{PULSE_LIMIT, Readiness};
use tokio::time::timeout;

use super::{backlog::sentence, shared::Shared};

/// A probe waits for so long for what the database knows: less than the second that Kubernetes gives it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether the relay's loop turns. A supervisor that restarts a relay for anything else makes an outage longer.
pub(super) async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    if shared.observed.is_alive() {
        (StatusCode::OK, "alive\n".to_owned())
    } else {
        let ago = shared.observed.since_pulse().as_secs();
        let limit = PULSE_LIMIT.as_secs();
        let text = format!("the relay's loop has not turned for {ago} s (more than {limit} s): it hangs, restart it\n");
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

/// Whether events are delivered, or would be if this relay's turn came.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    let readiness = Readiness::of(&shared.observed.view(), Instant::now());
    if readiness.is_ready() {
        return (StatusCode::OK, format!("{}\n", readiness.sentence()));
    }
    let health = timeout(PATIENCE, shared.backlog.health()).await.ok().flatten();
    let waiting = health.as_ref().map(sentence).unwrap_or_default();
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}{waiting}\n", readiness.sentence()))
}
