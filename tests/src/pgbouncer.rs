//! A private PgBouncer.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Connection, Database, Guarded, SOON, eventually,
    guarded::Start,
    places::{give_to_postgres, installed, postgres_user, run_folder, server_folder},
    ports,
};

/// The program, which Debian has out of users' PATH.
fn program() -> PathBuf {
    installed("pgbouncer", "/usr/sbin").expect("PgBouncer is installed: run scripts/setup")
}

/// A pooler before one database, in transaction mode and with one session of the server's for all its clients of a
/// role. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    _process: Guarded,
}

impl PgBouncer {
    /// For clients that log in as superuser or as one of `roles`.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn before(db: &Database, roles: &[&str]) -> Self {
        let folder = server_folder("pgbouncer");
        give_to_postgres(&folder);
        let port = ports::free();
        let users = roles.iter().chain(&["postgres"]).map(|role| format!("\"{role}\" \"\"\n")).collect::<String>();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 1\n",
            db.port(),
            folder.join("users").display()
        );
        write(&folder.join("users"), &users);
        write(&folder.join("pgbouncer.ini"), &settings);
        let mut command = Command::new(program());
        command.arg(folder.join("pgbouncer.ini"));
        let log = folder.join("log");
        let name = format!("pgbouncer on port {port}");
        let start =
            Start { name: &name, run: run_folder(&folder), log: Some(&log), user: postgres_user(), stop: "TERM" };
        let (process, _) = Guarded::start(&start, &command);
        let url = db.url_at(port);
        eventually(&format!("{name} accepts connections"), SOON, async || match process.try_exit() {
            Some(status) => {
                panic!("{name} ended with {status}:\n{}", std::fs::read_to_string(&log).unwrap_or_default())
            }
            None => Connection::try_open(&url).await.map(drop).map_err(|e| e.to_string()),
        })
        .await;
        Self { url, _process: process }
    }

    /// A `DATABASE_URL` through it, as superuser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A session through it, as a role.
    pub async fn connect_as(&self, role: &str) -> Connection {
        Connection::open(&self.url.replacen("//postgres@", &format!("//{role}@"), 1)).await
    }

    /// Whether this version lets replication connections through, as 1.23 and later ones do.
    ///
    /// # Panics
    /// When it does not say its version.
    pub fn passes_replication() -> bool {
        let told = Command::new(program()).arg("--version").output().expect("pgbouncer --version").stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        let version = told.strip_prefix("PgBouncer ").and_then(|rest| rest.split_whitespace().next());
        let mut parts = version.expect("a version").split('.').map(|part| part.parse::<u32>().expect("a number"));
        (parts.next(), parts.next()) >= (Some(1), Some(23))
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    give_to_postgres(path);
}
