//! What is served over HTTP.

use std::{future::pending, io, net::TcpListener, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use super::{health, metrics, owed::Desk};
use crate::observe::Observed;

/// What every page has at hand.
pub(super) struct Shared {
    pub(super) observed: Arc<Observed>,
    /// Name of the database: a label of every metric.
    pub(super) database: String,
    pub(super) desk: Desk,
}

/// Answers requests, forever. Without a listener it waits forever.
pub(super) async fn serve(listener: Option<TcpListener>, shared: Arc<Shared>) -> io::Result<()> {
    let Some(listener) = listener else { return pending().await };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .with_state(shared);
    axum::serve(listener, routes).await
}

/// The format is that of <https://prometheus.io/docs/specs/om/open_metrics_spec/>.
async fn scrape(State(shared): State<Arc<Shared>>) -> Response {
    const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let owed = shared.desk.owed().await;
    match metrics::encode(&shared.observed, owed, &shared.database) {
        Ok(text) => ([(header::CONTENT_TYPE, FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
