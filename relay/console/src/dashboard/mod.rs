//! The dashboard: one page that first answers "do events flow?", and then what an operator needs next. The relay's
//! [`admin`](crate::admin) thread serves it; it sees the session only through the published view, and the database
//! through connections and roles of its own.
//!
//! | file | what |
//! |---|---|
//! | `page/` | the page's files; `page/uplot/` is uPlot 1.6.32 (<https://github.com/leeoniya/uPlot>, MIT) |
//! | [`files`] | serves it |
//! | [`guard`] | guards each request: the Host header, other sites, headers of each answer |
//! | [`access`], [`sign_in`], [`sessions`], [`tokens`], [`wrong_tokens`], [`who`] | who a user is, and what they may do |
//! | [`source`] | a connection to the database as one role |
//! | [`panels`], [`events`] | queries that the pages show |
//! | [`actions`] | replay and release: preview, then the action |
//! | [`live`], [`summary`], [`samples`] | the figures of each second, and the summary in a sentence |

mod access;
mod actions;
mod events;
mod files;
mod guard;
mod live;
mod panels;
mod refusal;
mod samples;
mod sessions;
mod sign_in;
mod source;
mod summary;
mod tokens;
mod who;
mod wrong_tokens;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router, middleware,
    routing::{get, post},
};
use outbox_service::{Config, address::Address, error::RunError, observe::Observed};
use pg_replication::ConnInfo;

use self::{access::Access, live::Live, refusal::Refusal, source::Source};
use crate::DashboardConfig;

/// State that every page shares.
#[derive(Debug)]
pub(crate) struct Dashboard {
    observed: Arc<Observed>,
    access: Access,
    /// Connection that reads no payloads.
    reader: Option<Source>,
    /// Connection that reads payloads, replays and releases.
    operator: Option<Source>,
    live: Live,
    /// Name of the environment, which each page shows beside the database's.
    instance_name: Option<String>,
    database_url: Address<ConnInfo>,
    slot: String,
    relay_name: String,
    prefix: String,
}

impl Dashboard {
    /// Makes the dashboard of this relay, to be served on `address`.
    ///
    /// # Errors
    ///
    /// A file of tokens is invalid.
    pub(crate) fn new(
        dashboard: &DashboardConfig,
        relay: &Config,
        observed: &Arc<Observed>,
        address: SocketAddr,
    ) -> Result<Arc<Self>, RunError> {
        let source =
            |url: &Option<_>, begin| url.clone().map(|server| Source::new(server, &relay.application_name, begin));
        Ok(Arc::new(Self {
            observed: Arc::clone(observed),
            access: Access::new(dashboard, address)?,
            reader: source(&dashboard.database_url, source::READING),
            operator: source(&dashboard.operator_database_url, source::OPERATING),
            live: Live::default(),
            instance_name: dashboard.instance_name.clone(),
            database_url: relay.database_url.clone(),
            slot: relay.slot.clone(),
            relay_name: relay.application_name.clone(),
            prefix: dashboard.path.trim_end_matches('/').to_owned(),
        }))
    }

    /// Samples the relay and queries the database, forever.
    pub(crate) async fn watch(&self) {
        live::watch(self).await;
    }

    /// Returns the routes of the pages.
    pub(crate) fn routes(self: &Arc<Self>) -> Router {
        let at = |path: &str| format!("{}/{path}", self.prefix);
        let routes = files::routes(&self.prefix)
            .route(&at("api/session"), get(sign_in::show).post(sign_in::sign_in))
            .route(&at("api/session/end"), post(sign_in::sign_out))
            .route(&at("api/live"), get(live::stream))
            .route(&at("api/history"), get(live::history))
            .route(&at("api/events"), get(events::list))
            .route(&at("api/events/{id}"), get(events::one))
            .route(&at("api/events/{id}/contents"), get(events::contents))
            .route(&at("api/failures"), get(panels::failures))
            .route(&at("api/keys"), get(panels::keys))
            .route(&at("api/relays"), get(panels::relays))
            .route(&at("api/audit"), get(panels::audit))
            .route(&at("api/preview"), post(actions::preview))
            .route(&at("api/act"), post(actions::act));
        routes
            .layer(middleware::from_fn_with_state(Arc::clone(self), guard::check))
            .layer(axum::extract::DefaultBodyLimit::max(guard::LARGEST_BODY))
            .with_state(Arc::clone(self))
    }

    /// Returns the readers' connection.
    fn reader(&self) -> Result<&Source, Refusal> {
        self.reader.as_ref().ok_or_else(|| {
            Refusal::unavailable(
                "The database is not shown. Give the relay dashboard_database_url, with a role that has outbox.grant_monitor().",
            )
        })
    }

    /// Returns the operators' connection.
    fn operator(&self) -> Result<&Source, Refusal> {
        self.operator.as_ref().ok_or_else(|| {
            Refusal::unavailable(
                "Payloads and actions are switched off. Give the relay dashboard_operator_database_url, with a role that has outbox.grant_operate().",
            )
        })
    }
}
