//! Configuration of the console.

use std::{net::SocketAddr, path::PathBuf};

use outbox_service::address::Address;
use pg_replication::ConnInfo;

use crate::retention::Policy;

/// The settings of the console. docs/configuration.md explains each for operators.
#[derive(Clone, Debug)]
pub struct Config {
    /// The relay that the console observes: its servers, and its names on them.
    pub relay: outbox_service::Config,
    /// How long finished events are kept.
    pub retention: Policy,
    /// Address of the HTTP server; `None` if there is none.
    pub http_listen: Option<SocketAddr>,
    /// The dashboard on that server; `None` if it is off.
    pub dashboard: Option<DashboardConfig>,
}

/// The dashboard's configuration: its database roles, and its users.
#[derive(Clone, Debug)]
pub struct DashboardConfig {
    /// Name of the environment, which each page shows beside the database's.
    pub instance_name: Option<String>,
    /// PostgreSQL for readers, with a role that cannot read payloads.
    pub database_url: Option<Address<ConnInfo>>,
    /// PostgreSQL for operators, with a role that reads payloads, replays and releases.
    pub operator_database_url: Option<Address<ConnInfo>>,
    /// File with the readers' tokens.
    pub readers: Option<PathBuf>,
    /// File with the operators' tokens; operators may also see payloads, replay and release.
    pub operators: Option<PathBuf>,
    /// Host names under which browsers may reach it, separated by commas.
    pub hosts: String,
    /// Path below which the dashboard is served.
    pub path: String,
}
