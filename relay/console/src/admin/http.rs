//! The HTTP server: metrics, health and the dashboard.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, State},
    http::{Request, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use super::{health, metrics, shared::Shared};

/// Most connections at a time, so that the relay keeps its file descriptors. A new connection beyond them closes the
/// oldest, so that idle clients do not keep out a probe; a browser reconnects by itself.
const MOST_CONNECTIONS: usize = 256;

/// Longest time that a connection may be open without sending a request.
const REQUEST_PATIENCE: Duration = Duration::from_secs(15);

/// Answers requests, forever. Without a listener it does nothing, forever.
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
    let mut by_age = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if by_age.len() >= MOST_CONNECTIONS {
                        by_age.pop_front().inspect(AbortHandle::abort);
                    }
                    by_age.push_back(connections.spawn(serve_one(stream, peer, routes.clone())));
                }
                Err(_) => sleep(Duration::from_millis(100)).await, // the process has no file descriptor left
            },
            Some(_) = connections.join_next() => by_age.retain(|connection| !connection.is_finished()),
        }
    }
}

/// Serves one connection. Its errors are ignored, because the client sees them itself.
async fn serve_one(stream: TcpStream, peer: SocketAddr, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_PATIENCE);
    let routes = TowerToHyperService::new(routes);
    let from_peer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.call(request)
    });
    let _ = http.serve_connection(TokioIo::new(stream), from_peer).await;
}

/// Answers a scrape, in the format of <https://prometheus.io/docs/specs/om/open_metrics_spec/>.
async fn scrape(State(shared): State<Arc<Shared>>) -> Response {
    const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let health = shared.backlog.health().await;
    match metrics::encode(&shared.observed, health, &shared.database) {
        Ok(text) => ([(header::CONTENT_TYPE, FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
