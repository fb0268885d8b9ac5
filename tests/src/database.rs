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
}

impl Database {
    pub(crate) async fn create(maintenance_url: &str, url: impl Fn(&str) -> String, template: &str) -> Self {
        let name = unique_name();
        let maintenance = Connection::open(maintenance_url).await;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        maintenance.batch_execute(&create).await.unwrap_or_else(|e| panic!("{create}: {e:?}"));
        let url = url(&name);
        let connection = Connection::open(&url).await;
        Self { name, url, maintenance_url: maintenance_url.to_owned(), connection }
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
        // A slot left behind would keep the shared server's WAL. The server may be stopped, then nothing is owed.
        on_own_runtime(async {
            let Ok(maintenance) = Connection::try_open(url).await else {
                return;
            };
            let slots = format!(
                "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE database = '{name}' AND active;
                 SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{name}'"
            );
            let _ = maintenance.batch_execute(&slots).await;
            let _ = maintenance.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
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
