//! What is served over HTTP.

use std::{convert::Infallible, future::pending, io, net::TcpListener, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{task::JoinSet, time::sleep};

use super::{health, metrics, owed::Desk};
use crate::{dashboard::Dashboard, observe::Observed};

/// Connections at a time: whoever opens more waits, and the relay keeps its file descriptors.
const MOST_CONNECTIONS: usize = 256;

/// Whoever sends no request for so long loses the connection.
const REQUEST_PATIENCE: Duration = Duration::from_secs(15);

/// What every page has at hand.
pub(super) struct Shared {
    pub(super) observed: Arc<Observed>,
    /// Name of the database: a label of every metric.
    pub(super) database: String,
    pub(super) desk: Desk,
    pub(super) dashboard: Option<Arc<Dashboard>>,
}

/// Answers requests, forever. Without a listener it waits forever.
pub(super) async fn serve(listener: Option<TcpListener>, shared: Arc<Shared>) -> io::Result<()> {
    let Some(listener) = listener else { return pending().await };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .with_state(Arc::clone(&shared));
    match &shared.dashboard {
        Some(dashboard) => tokio::select! {
            never = accept(listener, routes.merge(dashboard.routes())) => match never {},
            () = dashboard.watch() => Ok(()),
        },
        None => match accept(listener, routes).await {},
    }
}

async fn accept(listener: tokio::net::TcpListener, routes: Router) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_PATIENCE);
                    connections.spawn(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes.clone())));
                }
                Err(_) => sleep(Duration::from_millis(100)).await, // the process is out of file descriptors
            },
            Some(_) = connections.join_next() => {} // whatever went wrong with it, the browser knows
        }
    }
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
