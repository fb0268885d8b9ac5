//! Makes a PostgreSQL cluster.

use std::{path::Path, process::Command, sync::Mutex, time::Duration};

use tokio::sync::OnceCell;

use super::{Postgres, write};
use crate::{
    Guarded,
    guarded::Start,
    places::{give_to_postgres, pg_folder, postgres_user, run_folder, server_folder},
    ports,
};

/// A server's settings before it starts.
#[derive(Debug, Default)]
pub struct PostgresBuilder {
    settings: Vec<(String, String)>,
    hba: Option<String>,
}

impl PostgresBuilder {
    /// A line of postgresql.conf.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The whole pg_hba.conf. The superuser `postgres` is trusted before it, so that the harness gets in.
    #[must_use]
    pub fn hba(mut self, lines: &str) -> Self {
        self.hba = Some(lines.to_owned());
        self
    }

    /// Makes a new cluster and starts it.
    pub async fn start(self) -> Postgres {
        let folder = server_folder("postgres");
        give_to_postgres(&folder);
        let data = folder.join("data");
        initdb(&folder, &data).await;

        let port = ports::free();
        let socket_fits = folder.join(format!(".s.PGSQL.{port}")).as_os_str().len() <= SOCKET_PATH_BYTES;
        let mut conf = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nwal_level = logical\n\
             max_connections = 300\nmax_wal_senders = 200\nmax_replication_slots = 200\nmax_wal_size = 4GB\n\
             log_line_prefix = '%m [%p] %q%u@%d/%a '\n",
            if socket_fits { folder.to_str().expect("UTF-8") } else { "" }
        );
        for (name, value) in &self.settings {
            conf += &format!("{name} = '{}'\n", value.replace('\'', "''"));
        }
        write(&data.join("postgresql.auto.conf"), &conf);
        if let Some(lines) = &self.hba {
            let trust = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhost replication postgres 127.0.0.1/32 trust\n";
            write(&data.join("pg_hba.conf"), &format!("{trust}{lines}\n"));
        }
        let server = Postgres { folder, port, process: Mutex::default(), template: OnceCell::new() };
        server.start().await;
        server
    }
}

/// `sun_path` of `struct sockaddr_un`, without the final NUL (`man 7 unix`).
const SOCKET_PATH_BYTES: usize = 107;

async fn initdb(folder: &Path, data: &Path) {
    let mut command = Command::new(pg_folder("--bindir").join("initdb"));
    command.args(["--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--pgdata"]);
    command.arg(data).current_dir(folder);
    let log = folder.join("initdb.log");
    let start = Start { name: "initdb", run: run_folder(folder), log: Some(&log), user: postgres_user(), stop: "KILL" };
    let status = Guarded::start(&start, &command).0.exited(Duration::from_secs(120)).await;
    assert!(status.success(), "initdb: {}", std::fs::read_to_string(log).unwrap_or_default());
}
