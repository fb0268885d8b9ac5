//! The provider that runs the PostgreSQL server, so that hints use the provider's terms. Nothing else depends on it.
//!
//! A provider is recognized by its own settings and roles. On a self-hosted server, a user who may create roles can
//! imitate a provider.

use pg_replication::quoting::identifier;
use tokio_postgres::Client;

use crate::legible::statement;

/// The provider whose settings or roles the server has. Providers come first that have settings of their own, so that
/// they are not taken for the one on whose software they build.
const FIND: &str = "
    SELECT platform FROM (VALUES
        (1, 'rds', 'rds.', 'rds.logical_replication', 'rds_superuser'),
        (2, 'cloud_sql', 'cloudsql.', 'cloudsql.logical_decoding', 'cloudsqlsuperuser'),
        (3, 'azure', 'azure.', 'azure.extensions', 'azure_pg_admin'),
        (4, 'neon', 'neon.', 'neon.timeline_id', 'neon_superuser'),
        (5, 'supabase', NULL, NULL, 'supabase_admin')
    ) AS known (place, platform, prefix, setting, role)
    WHERE pg_catalog.to_regrole(role) IS NOT NULL OR pg_catalog.current_setting(setting, true) <> ''
       OR EXISTS (SELECT FROM pg_catalog.pg_settings WHERE pg_catalog.starts_with(name, prefix))
    ORDER BY place LIMIT 1";

/// The provider that runs the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// No known provider; settings are changed by SQL or in files.
    #[default]
    Own,
    /// Amazon RDS and Aurora.
    Rds,
    /// Google Cloud SQL.
    CloudSql,
    /// Azure Database for PostgreSQL.
    Azure,
    /// Neon.
    Neon,
    /// Supabase.
    Supabase,
}

impl Platform {
    /// Asks the server. If it does not answer, no provider is assumed.
    pub async fn of(client: &Client) -> Self {
        let found = client.query_opt(FIND, &[]).await.ok().flatten();
        found.and_then(|row| row.try_get::<_, String>(0).ok()).map_or(Self::Own, |name| Self::named(&name))
    }

    fn named(name: &str) -> Self {
        match name {
            "rds" => Self::Rds,
            "cloud_sql" => Self::CloudSql,
            "azure" => Self::Azure,
            "neon" => Self::Neon,
            "supabase" => Self::Supabase,
            _ => Self::Own,
        }
    }

    /// How to change `wal_level` to `logical`.
    pub fn raise_wal_level(self) -> &'static str {
        match self {
            Self::Own => "ALTER SYSTEM SET wal_level = logical; then restart the server",
            Self::Rds => {
                "set rds.logical_replication = 1 in the parameter group of the instance (Aurora: of the cluster), then reboot it"
            }
            Self::CloudSql => "set the flag cloudsql.logical_decoding = on, which restarts the instance",
            Self::Azure => "set the server parameter wal_level to logical, then restart the server",
            Self::Neon => "enable logical replication in the project's settings, which restarts its computes",
            Self::Supabase => {
                "it is logical on Supabase unless somebody has changed it: reset it, or ask Supabase's support"
            }
        }
    }

    /// How to raise a setting that only a restart changes.
    pub fn raise(self, setting: &str) -> String {
        match self {
            Self::Own => format!("raise {setting}; then restart the server"),
            _ => format!("raise {setting} {}, then restart the server", self.place()),
        }
    }

    /// How to change a setting without a restart.
    pub fn set(self, setting: &str, value: &str) -> String {
        match self {
            Self::Own => format!("ALTER SYSTEM SET {setting} = '{value}'"),
            _ => format!("set {setting} = {value} {}, if it is offered there", self.place()),
        }
    }

    /// How to permit pgoutput in the server's list of output plugins. PostgreSQL shows the list to superusers and
    /// members of `pg_read_all_settings`.
    pub fn allow_pgoutput(self) -> String {
        match self {
            Self::Own => "as a superuser, with what SHOW output_plugin_libraries lists: ALTER SYSTEM SET output_plugin_libraries = pgoutput, …; \
                          SELECT pg_reload_conf()"
                .to_owned(),
            _ => format!("add pgoutput to output_plugin_libraries {}, if it is offered there", self.place()),
        }
    }

    /// How to give the role the right to replicate.
    pub fn allow_replication(self, role: &str) -> String {
        let role = statement(&identifier(role));
        match self {
            Self::Own => format!("as a superuser: ALTER ROLE {role} REPLICATION"),
            Self::Rds => format!("as a member of rds_superuser: GRANT rds_replication TO {role}"),
            Self::CloudSql => {
                format!("as postgres, or another member of cloudsqlsuperuser: ALTER ROLE {role} REPLICATION")
            }
            Self::Azure => format!("as the server's admin (azure_pg_admin): ALTER ROLE {role} REPLICATION"),
            Self::Neon => format!("as a member of neon_superuser: ALTER ROLE {role} REPLICATION"),
            Self::Supabase => format!("as postgres: ALTER ROLE {role} REPLICATION"),
        }
    }

    /// Where the provider's settings are changed.
    fn place(self) -> &'static str {
        match self {
            Self::Own => "in postgresql.conf",
            Self::Rds => "in the parameter group",
            Self::CloudSql => "as a flag of the instance",
            Self::Azure => "among the server parameters",
            Self::Neon => "by asking Neon's support",
            Self::Supabase => "by the Supabase CLI (supabase postgres-config update)",
        }
    }
}
