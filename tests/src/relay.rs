//! The real relay as a process.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::Mutex,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    Guarded, SOON, Usage, eventually,
    guarded::Start,
    places::{program, run_folder, server_folder},
    relay_log::RelayLog,
};

/// A running `outbox-relay`. Dropping it kills it; in a test that fails, its log is printed then.
#[derive(Debug)]
pub struct Relay {
    process: Guarded,
    log: Mutex<RelayLog>,
}

/// A relay's command line and environment. Nothing of ours is inherited but PATH and RUST_BACKTRACE.
#[derive(Clone, Debug)]
pub struct RelayBuilder {
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    program: Option<PathBuf>,
}

impl RelayBuilder {
    /// `outbox-relay run` with no settings.
    pub fn new() -> Self {
        Self { arguments: vec!["run".to_owned()], env: Vec::new(), program: None }
    }

    /// The relay that `make relay-otel` builds, with OpenTelemetry.
    #[must_use]
    pub fn with_opentelemetry(self) -> Self {
        self.program(&program("outbox-relay-otel", "OUTBOX_RELAY_OTEL_PROGRAM"))
    }

    /// Another command line, e.g. `["init"]`.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// A setting by the name it has on the command line: `("in-flight", "100")` sets `OUTBOX_RELAY_IN_FLIGHT`, and
    /// `database-url` and `amqp-url` their own variables.
    #[must_use]
    pub fn set(self, name: &str, value: &str) -> Self {
        let name = name.to_uppercase().replace('-', "_");
        match name.as_str() {
            "DATABASE_URL" | "AMQP_URL" => self.env(&name, value),
            _ => self.env(&format!("OUTBOX_RELAY_{name}"), value),
        }
    }

    /// Another program than the one that was built here.
    #[must_use]
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// An environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it, and does not wait for anything.
    pub fn spawn(&self) -> Relay {
        let folder: PathBuf = server_folder("relay");
        let built = || program("outbox-relay", "OUTBOX_RELAY_PROGRAM");
        let mut command = Command::new("env");
        // However the tests were started, by nohup for one.
        command.arg("--default-signal=HUP").arg(self.program.clone().unwrap_or_else(built));
        command.args(&self.arguments).current_dir(&folder);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_none_or(|name| !["PATH", "RUST_BACKTRACE"].contains(&name)) {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let start = Start { name: "outbox-relay", run: run_folder(&folder), log: None, user: None, stop: "KILL" };
        let (process, output) = Guarded::start(&start, &command);
        let stderr = output.stderr.map(OwnedFd::from);
        let log = RelayLog::read([OwnedFd::from(output.stdout)].into_iter().chain(stderr));
        Relay { process, log: Mutex::new(log) }
    }

    /// Starts it and waits until it streams.
    pub async fn start(&self) -> Relay {
        let relay = self.spawn();
        relay.wait_for_log("streaming").await;
        relay
    }

    /// Runs it to its end ([`SOON`]): exit status, and all it printed.
    pub async fn finish(&self) -> (ExitStatus, String) {
        let relay = self.spawn();
        let status = relay.exited().await;
        (status, relay.log_text())
    }
}

impl Default for RelayBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl Relay {
    /// Waits for a line of its log that contains `text`, from its start on ([`SOON`]), and returns the line.
    pub async fn wait_for_log(&self, text: &str) -> String {
        self.wait_for_log_after(0, text).await
    }

    /// As [`wait_for_log`](Self::wait_for_log), but only in lines after the first `mark` ones; see
    /// [`mark`](Self::mark).
    ///
    /// # Panics
    /// When the relay ends first or the deadline passes.
    pub async fn wait_for_log_after(&self, mark: usize, text: &str) -> String {
        self.wait_for_log_within(SOON, mark, text).await
    }

    /// As [`wait_for_log_after`](Self::wait_for_log_after), for what takes longer: the end of a backlog.
    ///
    /// # Panics
    /// When the relay ends first or the deadline passes.
    pub async fn wait_for_log_within(&self, deadline: Duration, mark: usize, text: &str) -> String {
        eventually(&format!("the relay logs {text:?}"), deadline, async || {
            let exit = self.process.try_exit(); // before its lines are read, or the last could be missed
            let lines = self.log_lines();
            match (lines.iter().skip(mark).find(|line| line.contains(text)), exit) {
                (Some(line), _) => Ok(line.clone()),
                (None, Some(status)) => panic!("the relay ended with {status} before it logged {text:?}"),
                (None, None) => Err(lines.last().cloned()),
            }
        })
        .await
    }

    /// The number of lines logged so far: what to wait for after something is done is logged behind this mark.
    pub fn mark(&self) -> usize {
        self.log_lines().len()
    }

    /// All lines of both output streams so far.
    pub fn log_lines(&self) -> Vec<String> {
        let mut log = self.log.lock().expect("no panic while locked");
        if self.process.try_exit().is_some() {
            log.finish();
        }
        log.lines()
    }

    /// All it has printed so far.
    pub fn log_text(&self) -> String {
        self.log_lines().join("\n")
    }

    /// SIGTERM: asks it to drain and stop. Does not wait.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// SIGHUP, as from a terminal that closes. Does not wait.
    pub fn hang_up(&self) {
        self.process.signal(Signal::HUP);
    }

    /// SIGTERM, and waits for its end ([`SOON`]).
    pub async fn stop(&self) -> ExitStatus {
        self.terminate();
        self.exited().await
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// Freezes it.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Waits for its end ([`SOON`]). The exit code is its own, or 128 + the signal that ended it.
    pub async fn exited(&self) -> ExitStatus {
        self.exited_within(SOON).await
    }

    /// Waits for its end.
    pub async fn exited_within(&self, deadline: Duration) -> ExitStatus {
        self.process.exited(deadline).await
    }

    /// How it ended, if it did.
    pub fn try_exit(&self) -> Option<ExitStatus> {
        self.process.try_exit()
    }

    /// Memory and CPU time so far.
    ///
    /// # Panics
    /// When it has ended.
    pub fn usage(&self) -> Usage {
        Usage::of(self.process.pid()).expect("the relay is running")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("--- the relay's log:\n{}\n---", self.log_text());
        }
    }
}
