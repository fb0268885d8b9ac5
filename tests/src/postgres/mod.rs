//! A private PostgreSQL server.

mod builder;
mod standby;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
};

pub use builder::PostgresBuilder;
use rustix::process::Signal;
use tokio::sync::OnceCell;

use crate::{
    Connection, Database, Guarded, SOON, eventually,
    guarded::Start,
    places::{checkout, extension_installed, give_to_postgres, pg_folder, postgres_user, run_folder},
    processes::children_of,
};

/// Databases are copies of this one: an extension is installed once, not once a test.
const TEMPLATE: &str = "outbox_template";

/// A PostgreSQL server on a loopback port, run from the private installation. Dropping it ends it and removes its
/// files.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    process: Mutex<Option<Guarded>>,
    template: OnceCell<()>,
}

/// How a server is told to stop; see `pg_ctl`'s shutdown modes.
#[derive(Clone, Copy, Debug)]
pub enum Shutdown {
    /// Ends sessions, and waits for walsenders to send all there is.
    Fast,
    /// Ends at once; the next start recovers from the log, as after a crash.
    Immediate,
}

impl Postgres {
    /// The server that all tests of this process share. It is started by the first of them. Making a slot waits for
    /// every older transaction of the server, so one that may take [`SOON`](crate::SOON) on a busy machine is for a
    /// [private](Self::private) server.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        // Nothing here has to survive a crash, so it need not wait for disks.
        SHARED
            .get_or_init(async || Self::private().set("fsync", "off").set("full_page_writes", "off").start().await)
            .await
    }

    /// A server of the test's own, which it may stop, kill and freeze.
    pub fn private() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// A new database with the extension installed.
    pub async fn database(&self) -> Database {
        self.template.get_or_init(async || self.make_template().await).await;
        Database::create(&self.url("postgres"), |name| self.url(name), TEMPLATE).await
    }

    /// A new database with nothing in it.
    pub async fn empty_database(&self) -> Database {
        Database::create(&self.url("postgres"), |name| self.url(name), "template0").await
    }

    /// A new database with nothing in it, in another encoding than UTF-8.
    pub async fn empty_database_in(&self, encoding: &str) -> Database {
        let template = format!("template0 ENCODING '{encoding}' LOCALE 'C'");
        Database::create(&self.url("postgres"), |name| self.url(name), &template).await
    }

    /// A `DATABASE_URL` for one of its databases, as superuser.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Its TCP port on 127.0.0.1, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster's process id.
    ///
    /// # Panics
    /// When it is stopped.
    pub fn pid(&self) -> u32 {
        let process = self.process.lock().expect("no panic while locked");
        process.as_ref().expect("the server is running").pid()
    }

    /// Process ids of the postmaster's children: backends, walsenders, autovacuum and the others.
    pub fn children(&self) -> Vec<u32> {
        children_of(self.pid()).into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// The folder of its Unix socket; as a URL's host it is written percent-encoded, or as `?host=`.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// A program of the same installation, e.g. `pg_dump`, told by its environment to connect to this server as
    /// superuser.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(pg_folder("--bindir").join(name));
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port.to_string()).env("PGUSER", "postgres");
        command
    }

    /// What it has logged. A database in another encoding logs its texts in that.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The file of its log.
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Stops it and waits until it has.
    pub async fn stop(&self, how: Shutdown) {
        let process = self.take();
        process.signal(match how {
            Shutdown::Fast => Signal::INT,
            Shutdown::Immediate => Signal::QUIT,
        });
        process.exited(SOON).await;
    }

    /// Kills the postmaster, as `kill -9` does; its children follow.
    pub async fn kill(&self) {
        self.take().kill().await;
    }

    /// Freezes the postmaster and all its children: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port and data, and waits until
    /// it accepts connections.
    pub async fn start(&self) {
        let mut command = Command::new(pg_folder("--bindir").join("postgres"));
        command.arg("-D").arg(self.folder.join("data"));
        command.env("RUST_BACKTRACE", "1"); // as an administrator may set it: no error may have a backtrace in its DETAIL
        let name = format!("postgres on port {}", self.port);
        let log = self.log_path();
        let start =
            Start { name: &name, run: run_folder(&self.folder), log: Some(&log), user: postgres_user(), stop: "QUIT" };
        let (process, _) = Guarded::start(&start, &command);
        eventually(&format!("{name} accepts connections"), SOON, async || match process.try_exit() {
            Some(status) => panic!("{name} ended with {status}:\n{}", self.log()),
            None => Connection::try_open(&self.url("postgres")).await.map_err(|e| e.to_string()),
        })
        .await;
        *self.process.lock().expect("no panic while locked") = Some(process);
    }

    fn take(&self) -> Guarded {
        self.process.lock().expect("no panic while locked").take().expect("the server is running")
    }

    fn signal_all(&self, signal: Signal) {
        let process = self.process.lock().expect("no panic while locked");
        let postmaster = process.as_ref().expect("the server is running");
        // The postmaster first: a frozen one starts no new children behind our back.
        postmaster.signal(signal);
        for child in children_of(postmaster.pid()) {
            let _ = rustix::process::kill_process(child, signal);
        }
    }

    async fn make_template(&self) {
        let maintenance = Connection::open(&self.url("postgres")).await;
        maintenance.batch_execute(&format!("CREATE DATABASE {TEMPLATE}")).await.expect("CREATE DATABASE");
        if std::env::var_os("OUTBOX_PLAIN_SQL").is_some() {
            let output = self.install_plain_sql(TEMPLATE);
            assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        let template = Connection::open(&self.url(TEMPLATE)).await;
        assert!(extension_installed(), "the private PostgreSQL does not have the extension: run `make extension`");
        template.batch_execute("CREATE EXTENSION outbox").await.unwrap_or_else(|e| panic!("CREATE EXTENSION: {e:?}"));
    }

    /// Runs `sql/outbox.sql` in this database, as superuser.
    ///
    /// # Panics
    /// When there is no `psql`.
    pub fn install_plain_sql(&self, database: &str) -> Output {
        let mut psql = self.program("psql");
        psql.args(["--quiet", "--no-psqlrc", "--dbname", database, "--file"]).arg(checkout().join("sql/outbox.sql"));
        psql.output().expect("psql")
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    give_to_postgres(path);
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.process.get_mut().expect("no panic while locked").take());
        if std::env::var_os("OUTBOX_KEEP_SERVERS").is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
