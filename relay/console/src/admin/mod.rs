//! The relay's edge for people and machines: HTTP, and systemd. It runs off the hot path, on a thread of its own, and
//! sees the session only through [`observe`](outbox_service::observe).

mod backlog;
mod health;
mod http;
pub mod metrics;
mod shared;
mod systemd;

use std::{net::TcpListener, sync::Arc, thread, time::Duration};

use outbox_service::{
    error::{Kind, RunError},
    observe::Observed,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};
use tracing::{info, warn};

use crate::{Config, dashboard::Dashboard};

/// The running edge. Dropping it stops its thread's work.
#[derive(Debug)]
pub struct Admin {
    _until: Option<oneshot::Sender<()>>,
}

impl Admin {
    /// Starts the thread that serves HTTP and notifies systemd, as configured. If neither is configured, no thread
    /// starts.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on, or systemd's watchdog time is invalid.
    pub fn start(config: &Config, observed: &Arc<Observed>) -> Result<Self, RunError> {
        let listener = config.http_listen.map(|address| {
            let cannot = |error| {
                RunError::new(Kind::Usage, format!("cannot listen on {address} (http-listen)"))
                    .hint("name a free port, or off")
                    .source(error)
            };
            let listener = TcpListener::bind(address).map_err(cannot)?;
            listener.set_nonblocking(true).map_err(cannot)?;
            let address = listener.local_addr().map_err(cannot)?;
            let dashboard = config.dashboard.as_ref().map(|dashboard| Dashboard::new(dashboard, &config.relay, observed, address));
            let dashboard = dashboard.transpose()?;
            info!(target: "relay", %address, dashboard = dashboard.is_some(), "listening for HTTP: /metrics, /healthz, /readyz");
            Ok::<_, RunError>((listener, dashboard))
        });
        let (listener, dashboard) = listener.transpose()?.unzip();
        if listener.is_none() && !systemd::is_asked() {
            return Ok(Self { _until: None });
        }
        let watchdog = systemd::watchdog()?;
        let (until, ended) = oneshot::channel::<()>();
        let shared = shared::Shared {
            observed: Arc::clone(observed),
            database: config.relay.database_url.database(),
            backlog: backlog::BacklogMonitor::new(config.relay.clone()),
            dashboard: dashboard.flatten(),
        };
        let shared = Arc::new(shared);
        let cannot = |error| RunError::new(Kind::Internal, "cannot start the thread for HTTP").source(error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || serve(runtime, listener, &shared, watchdog, ended))
            .map_err(cannot)?;
        Ok(Self { _until: Some(until) })
    }
}

fn serve(
    runtime: Runtime,
    listener: Option<TcpListener>,
    shared: &Arc<shared::Shared>,
    watchdog: Option<Duration>,
    ended: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        tokio::select! {
            served = http::serve(listener, Arc::clone(shared)) => {
                if let Err(error) = served {
                    warn!(target: "relay", %error, "the HTTP server has stopped");
                }
            }
            () = systemd::notify_systemd(&shared.observed, watchdog) => {}
            _ = ended => systemd::stopping(),
        }
    });
    runtime.shutdown_background();
}
