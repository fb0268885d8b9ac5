//! A database of a test's own.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Connection, on_own_runtime};

/// A database on a [`Postgres`](crate::Postgres), with an open superuser connection to it (it derefs to one). Dropping
/// it drops the database and its replication slots.
pub struct Database {
    name: String,
    url: String,
    maintenance_url: String,
    connection: Connection,
    is_checked: bool,
}

/// Whether the outbox's table and each btree index agree: contrib's `amcheck`, without its extension, so that nothing
/// of it is in the database. Its file comes with Debian's server; where it is not there, nothing is checked. Nor is a
/// table that is no heap.
const CHECK: &str = "
    SET statement_timeout = '1min';
    DO $$
    DECLARE wrong text;
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck') THEN
            RETURN;
        END IF;
        CREATE FUNCTION pg_temp.check_index(regclass, bool) RETURNS void STRICT LANGUAGE c AS '$libdir/amcheck', 'bt_index_check';
        CREATE FUNCTION pg_temp.check_table(regclass, bool, bool, text, bigint, bigint,
            OUT bigint, OUT int, OUT int, OUT msg text) RETURNS SETOF record LANGUAGE c AS '$libdir/amcheck', 'verify_heapam';
        PERFORM pg_temp.check_index(i.indexrelid, true)
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
        WHERE i.indrelid = to_regclass('outbox.events') AND a.amname = 'btree' AND i.indisready AND i.indisvalid;
        SELECT string_agg(f.msg, '; ') INTO wrong
        FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam,
            LATERAL pg_temp.check_table(c.oid, false, true, 'none', NULL, NULL) AS f
        WHERE c.oid = to_regclass('outbox.events') AND a.amname = 'heap';
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'outbox.events is corrupt: %', wrong;
        END IF;
    END $$";

impl Database {
    pub(crate) async fn create(maintenance_url: &str, url: impl Fn(&str) -> String, template: &str) -> Self {
        let name = unique_name();
        let maintenance = Connection::open(maintenance_url).await;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        maintenance.batch_execute(&create).await.unwrap_or_else(|e| panic!("{create}: {e:?}"));
        let url = url(&name);
        let connection = Connection::open(&url).await;
        Self { name, url, maintenance_url: maintenance_url.to_owned(), connection, is_checked: false }
    }

    /// Has the table and its indexes checked when it is dropped, however the test has left them: a test that finds
    /// corruption fails.
    #[must_use]
    pub fn checked_at_the_end(mut self) -> Self {
        self.is_checked = true;
        self
    }

    /// Whether what is in the table and in its indexes is sound. Ends all other sessions first: what they have not
    /// committed is not waited for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn check(&self) -> Result<(), String> {
        let others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let session = Connection::try_open(&self.url).await.map_err(|e| e.to_string())?;
        session.batch_execute(others).await.map_err(|e| format!("{e:?}"))?;
        session.batch_execute(CHECK).await.map_err(|e| format!("{e:?}"))
    }

    /// Its name: made of the test's name, and fit for a slot or a vhost too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A `DATABASE_URL` for it, as superuser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A `DATABASE_URL` for it as another role. The servers trust local connections, so the password is for show.
    pub fn url_as(&self, role: &str) -> String {
        self.url.replacen("//postgres@", &format!("//{role}:secret@"), 1)
    }

    /// A `DATABASE_URL` for it through another port, a [`Proxy`](crate::Proxy)'s.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{}", self.name)
    }

    /// The server's own port.
    ///
    /// # Panics
    /// Never: its URL has one.
    pub fn port(&self) -> u16 {
        let after_host = self.url.rsplit(':').next().expect("a port");
        after_host.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Another session, as superuser.
    pub async fn connect(&self) -> Connection {
        Connection::open(&self.url).await
    }

    /// Another session, as `role`.
    pub async fn connect_as(&self, role: &str) -> Connection {
        Connection::open(&self.url_as(role)).await
    }
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Database {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (name, url) = (&self.name, &self.maintenance_url);
        let is_checked = self.is_checked && !std::thread::panicking();
        // A slot left behind would keep the shared server's WAL. The server may be stopped, then there is none to drop.
        on_own_runtime(async {
            let Ok(maintenance) = Connection::try_open(url).await else {
                return;
            };
            let checked = if is_checked { self.check().await } else { Ok(()) };
            let slots = format!(
                "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE database = '{name}' AND active;
                 SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{name}'"
            );
            let _ = maintenance.batch_execute(&slots).await;
            let _ = maintenance.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            assert_eq!(checked, Ok(()), "the check of database {name}");
        });
    }
}

/// The running test's name as an identifier, with a number: readable in logs and in `\l`.
pub(crate) fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or("main").to_lowercase();
    let plain: String = test.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect();
    format!("t{}_{plain}", COUNT.fetch_add(1, Ordering::Relaxed))
}
