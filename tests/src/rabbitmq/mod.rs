//! A private RabbitMQ node.

mod builder;
mod cluster;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

pub use builder::RabbitMqBuilder;
pub use cluster::Cluster;
use serde_json::Value;
use tokio::{net::TcpStream, sync::OnceCell};

use crate::{
    Guarded, Vhost, eventually,
    guarded::Start,
    http,
    places::{self, run_folder},
};

/// A node is up in 8 to 12 s on two free cores; several that start at once share them.
const START: Duration = Duration::from_secs(120);

/// A RabbitMQ node of its own on loopback ports, with its own epmd and the management plugin's HTTP API. User `guest`,
/// password `guest`. Dropping it ends it and removes its files.
#[derive(Debug)]
pub struct RabbitMq {
    name: String,
    folder: PathBuf,
    /// Its cookie's; the nodes of a cluster have one.
    home: PathBuf,
    amqp_port: u16,
    tls_port: Option<u16>,
    http_port: u16,
    distribution_port: u16,
    epmd_port: u16,
    erlang_arguments: &'static str,
    process: Mutex<Option<Guarded>>,
}

impl RabbitMq {
    /// The node that all tests of this process share. It is started by the first of them.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<RabbitMq> = OnceCell::const_new();
        SHARED.get_or_init(async || Self::private().start().await).await
    }

    /// A node of the test's own, which it may stop, kill and freeze. It takes about 10 s to start.
    pub fn private() -> RabbitMqBuilder {
        RabbitMqBuilder::default()
    }

    /// A new vhost with nothing in it.
    pub async fn vhost(&self) -> Vhost {
        Vhost::create(self.amqp_port, self.http_port).await
    }

    /// Its name in a cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Port of AMQP 0-9-1 on 127.0.0.1, the same after every restart.
    pub fn amqp_port(&self) -> u16 {
        self.amqp_port
    }

    /// Port of the management plugin's HTTP API and web pages.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Whether it was started, and not stopped or killed since.
    pub(crate) fn is_running(&self) -> bool {
        self.process.lock().expect("no panic while locked").is_some()
    }

    /// The node's process id.
    ///
    /// # Panics
    /// When it is stopped.
    pub fn pid(&self) -> u32 {
        let process = self.process.lock().expect("no panic while locked");
        process.as_ref().expect("the node is running").pid()
    }

    /// One request to the HTTP API, e.g. `("GET", "/api/connections", None)`.
    ///
    /// # Panics
    /// When the answer is not a success.
    pub async fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        http::request(self.http_port, method, path, body).await.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Runs `rabbitmqctl` (1 to 3 s) for what the HTTP API cannot do, e.g. `["set_vm_memory_high_watermark", "0"]`.
    ///
    /// # Panics
    /// When it fails.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::from(self.command("rabbitmqctl"));
        let output = command.args(arguments).kill_on_drop(true).output().await.expect("rabbitmqctl starts");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "rabbitmqctl {arguments:?}: {text}");
        text
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Stops it as an operator does: clients get a connection.close (320), durable state is kept.
    pub async fn stop(&self) {
        let process = self.take();
        process.signal(rustix::process::Signal::TERM);
        process.exited(START).await;
    }

    /// Kills it, as `kill -9` does. What was declared before is there when it starts again.
    pub async fn kill(&self) {
        self.write_declared().await;
        self.kill_at_once().await;
    }

    /// Kills it, wherever it is. What was declared just before may be lost.
    pub async fn kill_at_once(&self) {
        self.take().kill().await;
    }

    /// Has it write to disk what was declared. Seen without: a broker that was killed half a second after a declaration
    /// came back without the last binding, so that all that went there was unroutable.
    pub async fn write_declared(&self) {
        self.ctl(&["eval", "mnesia:sync_log()."]).await;
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.running(Guarded::pause);
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.running(Guarded::resume);
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same ports and data, and waits until
    /// it accepts clients.
    pub async fn start(&self) {
        let name = format!("rabbitmq on port {}", self.amqp_port);
        let log = self.log_file();
        let start = Start { name: &name, run: run_folder(&self.folder), log: Some(&log), user: None, stop: "KILL" };
        let (process, _) = Guarded::start(&start, &self.command("rabbitmq-server"));
        eventually(&format!("{name} accepts clients"), START, async || {
            if let Some(status) = process.try_exit() {
                panic!("{name} ended with {status}:\n{}", self.log());
            }
            http::request(self.http_port, "GET", "/api/overview", None).await?;
            // One port that takes clients does not mean that the others do.
            for port in [Some(self.amqp_port), self.tls_port].into_iter().flatten() {
                TcpStream::connect(("127.0.0.1", port)).await.map_err(|e| e.to_string())?;
            }
            Ok::<_, String>(())
        })
        .await;
        *self.process.lock().expect("no panic while locked") = Some(process);
    }

    fn command(&self, program: &str) -> Command {
        let folder = |name: &str| self.folder.join(name);
        let mut command = Command::new(sbin().join(program));
        command
            .current_dir(&self.folder)
            .env("HOME", &self.home) // the Erlang cookie
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.epmd_port.to_string())
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", folder("rabbitmq.conf"))
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder("enabled_plugins"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_LOG_BASE", &self.folder)
            .env("RABBITMQ_MNESIA_BASE", folder("data"))
            .env("RABBITMQ_NODENAME", &self.name)
            // Together: the start script becomes the node instead of its parent, so that its process id is the node's.
            .env("RABBITMQ_ALLOW_INPUT", "true")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!("-noinput -kernel inet_dist_use_interface {{127,0,0,1}} {}", self.erlang_arguments),
            );
        command
    }

    fn take(&self) -> Guarded {
        self.process.lock().expect("no panic while locked").take().expect("the node is running")
    }

    fn running(&self, act: impl Fn(&Guarded)) {
        act(self.process.lock().expect("no panic while locked").as_ref().expect("the node is running"));
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

/// The folder of the newest installed version's own scripts: Debian's wrappers in /usr/sbin want root or user rabbitmq.
fn sbin() -> PathBuf {
    if let Some(home) = std::env::var_os("RABBITMQ_HOME") {
        return Path::new(&home).join("sbin");
    }
    let installed = std::fs::read_dir("/usr/lib/rabbitmq/lib").into_iter().flatten().flatten();
    let mut versions: Vec<_> = installed.map(|entry| entry.path()).filter(|path| path.join("sbin").is_dir()).collect();
    versions.sort_by_key(|path| places::version_in(path));
    let homebrew = ["/opt/homebrew/opt/rabbitmq", "/usr/local/opt/rabbitmq"].map(PathBuf::from);
    versions.splice(0..0, homebrew.into_iter().filter(|path| path.join("sbin").is_dir()));
    versions.pop().expect("RabbitMQ is not installed: run scripts/setup, or set RABBITMQ_HOME").join("sbin")
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        drop(self.process.get_mut().expect("no panic while locked").take());
        if std::env::var_os("OUTBOX_KEEP_SERVERS").is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
