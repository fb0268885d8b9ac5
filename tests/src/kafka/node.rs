//! One node of a Kafka.

use std::{
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::{KafkaClient, Listener, jars};
use crate::{Guarded, eventually, guarded::Start, places::run_folder};

/// A node is up in 2 to 4 s on two free cores; several that start at once share them.
const START: Duration = Duration::from_secs(120);

/// A broker that is a controller as well, which a test may stop, kill and freeze.
#[derive(Debug)]
pub struct KafkaNode {
    id: i32,
    folder: PathBuf,
    ports: Vec<(Listener, u16)>,
    java_option: String,
    process: Mutex<Option<Guarded>>,
    frozen: AtomicBool,
}

impl KafkaNode {
    pub(super) fn new(id: i32, folder: PathBuf, ports: Vec<(Listener, u16)>, java_option: String) -> Self {
        Self { id, folder, ports, java_option, process: Mutex::default(), frozen: AtomicBool::default() }
    }

    /// Its id: 1, 2 or 3.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The port of a listener on 127.0.0.1, the same after every restart.
    ///
    /// # Panics
    /// When the node has no such listener.
    pub fn port(&self, listener: Listener) -> u16 {
        let port = self.ports.iter().find(|(which, _)| *which == listener);
        port.unwrap_or_else(|| panic!("node {} has no listener {listener:?}", self.id)).1
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it is stopped.
    pub fn pid(&self) -> u32 {
        self.process.lock().expect("no panic while locked").as_ref().expect("the node is running").pid()
    }

    /// Whether it was started, and not stopped, killed or frozen since.
    pub fn is_running(&self) -> bool {
        self.process.lock().expect("no panic while locked").is_some() && !self.frozen.load(Ordering::Relaxed)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Stops it as an operator does: other nodes take its partitions over first.
    pub async fn stop(&self) {
        let process = self.take();
        process.signal(Signal::TERM);
        process.exited(START).await;
    }

    /// Kills it, as `kill -9` does.
    pub async fn kill(&self) {
        self.take().kill().await;
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.running(Guarded::pause);
        self.frozen.store(true, Ordering::Relaxed);
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.running(Guarded::resume);
        self.frozen.store(false, Ordering::Relaxed);
    }

    /// Lets none of its files grow beyond so many bytes: what it writes behind them fails, as on a full disk. A start
    /// undoes it.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn limit_files(&self, bytes: u64) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(pid, Resource::Fsize, limit).unwrap_or_else(|e| panic!("node {} cannot be limited: {e}", self.id));
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When that takes longer than a start may.
    pub async fn ended(&self) {
        self.take().exited(START).await;
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same ports and data, and waits until
    /// it accepts clients. It does so only when most nodes are running: await several starts together.
    pub async fn start(&self) {
        self.start_in(1).await;
    }

    /// The same, and waits until it knows `brokers`, itself among them.
    pub(super) async fn start_in(&self, brokers: i32) {
        let (name, log) = (format!("Kafka node {} in {}", self.id, self.folder.display()), self.folder.join("log"));
        let mut java = jars::java();
        java.current_dir(&self.folder).args([&self.java_option, "kafka.Kafka", "server.properties"]);
        let start = Start { name: &name, run: run_folder(&self.folder), log: Some(&log), user: None, stop: "KILL" };
        let (process, _) = Guarded::start(&start, &java);
        eventually(&format!("{name} accepts clients"), START, async || {
            if let Some(status) = process.try_exit() {
                panic!("{name} ended with {status}:\n{}", self.log());
            }
            let metadata = self.metadata().await?;
            let known: Vec<i32> = metadata.brokers.iter().map(|broker| broker.node_id.0).collect();
            let enough = i32::try_from(known.len()).is_ok_and(|count| count >= brokers) && known.contains(&self.id);
            if enough { Ok(()) } else { Err(format!("it knows the nodes {known:?}")) }
        })
        .await;
        *self.process.lock().expect("no panic while locked") = Some(process);
    }

    async fn metadata(&self) -> Result<MetadataResponse, String> {
        let mut client = KafkaClient::try_connect(self.port(Listener::Plain)).await?;
        client.try_request(12, &MetadataRequest::default().with_topics(Some(Vec::new()))).await
    }

    fn take(&self) -> Guarded {
        self.frozen.store(false, Ordering::Relaxed);
        self.process.lock().expect("no panic while locked").take().expect("the node is running")
    }

    fn running(&self, act: impl Fn(&Guarded)) {
        act(self.process.lock().expect("no panic while locked").as_ref().expect("the node is running"));
    }
}

impl Drop for KafkaNode {
    fn drop(&mut self) {
        drop(self.process.get_mut().expect("no panic while locked").take());
        if std::env::var_os("OUTBOX_KEEP_SERVERS").is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
