//! What the console is to show, and what it is to delete.

use std::{net::SocketAddr, path::PathBuf};

use outbox_service::address::Address;
use pg_replication::ConnInfo;

use crate::retention::Policy;

/// The settings of the console. docs/configuration.md says of each what it means to an operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The relay that is asked about: its servers, and its names on them.
    pub relay: outbox_service::Config,
    /// How long events are kept once they are finished.
    pub retention: Policy,
    /// Where to answer HTTP; `None`: nowhere.
    pub http_listen: Option<SocketAddr>,
    /// The dashboard, to be served there; `None`: there is none.
    pub dashboard: Option<DashboardConfig>,
}

/// The dashboard: which roles it has, and whom it lets in.
#[derive(Clone, Debug)]
pub struct DashboardConfig {
    /// PostgreSQL, by a role that sees no payloads.
    pub database_url: Option<Address<ConnInfo>>,
    /// PostgreSQL, by a role that sees payloads, replays and releases.
    pub operator_database_url: Option<Address<ConnInfo>>,
    /// File with the tokens of those who may read.
    pub readers: Option<PathBuf>,
    /// File with the tokens of those who may also see payloads, replay and release.
    pub operators: Option<PathBuf>,
    /// Host names under which browsers may reach it, separated by commas.
    pub hosts: String,
    /// Path below which it is.
    pub path: String,
}
