//! A process that ends with us.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{eventually, places};

/// A process under an [`outbox-guardian`](crate::guardian): ends when this is dropped or our process ends.
#[derive(Debug)]
pub struct Guarded {
    name: String,
    guardian: Mutex<Child>,
    pid: Pid,
}

/// How a guarded process is started.
pub(crate) struct Start<'a> {
    /// For messages.
    pub name: &'a str,
    /// The folder of the run it belongs to; see [`places::run_folder`].
    pub run: &'a Path,
    /// Where its output goes; `None`: it is piped to us, and [`Guarded::start`] returns the pipe.
    pub log: Option<&'a Path>,
    /// The user to run as; `None`: ourselves.
    pub user: Option<&'a str>,
    /// The signal that ends it cleanly enough: `KILL`, or `QUIT` for PostgreSQL, which then removes its shared memory.
    pub stop: &'a str,
}

impl Guarded {
    /// Starts `command`, whose arguments, environment and working folder are taken over. Returns its standard output
    /// (and leaves standard error piped too) if `start.log` is `None`.
    pub(crate) fn start(start: &Start<'_>, command: &Command) -> (Self, Output) {
        let mut guardian = guardian(start.run);
        guardian.args(["--stop", start.stop]);
        if let Some(user) = start.user {
            guardian.args(["--user", user]);
        }
        if let Some(log) = start.log {
            guardian.arg("--log").arg(log);
        } else {
            guardian.stderr(Stdio::piped());
        }
        guardian.arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => guardian.env(name, value),
                None => guardian.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            guardian.current_dir(folder);
        }
        Self::spawn(start.name, guardian)
    }

    /// Starts the keeper of a run's folder, which removes it at the end (or only waits, with `keep`).
    pub(crate) fn keeper(run: &Path, keep: bool) -> Self {
        let mut guardian = guardian(run);
        guardian.arg("--keeper");
        if keep {
            guardian.arg("--keep");
        }
        Self::spawn("the run's folder", guardian).0
    }

    fn spawn(name: &str, mut command: Command) -> (Self, Output) {
        let mut guardian = command.spawn().unwrap_or_else(|e| panic!("cannot start a guardian for {name}: {e}"));
        let mut stdout = guardian.stdout.take().expect("piped");
        let stderr = guardian.stderr.take();
        let pid = read_line(&mut stdout).parse().ok().and_then(Pid::from_raw);
        let pid = pid.unwrap_or_else(|| panic!("{name} did not start: {:?}", guardian.wait()));
        (Self { name: name.to_owned(), guardian: Mutex::new(guardian), pid }, Output { stdout, stderr })
    }

    /// The process's own id (not its guardian's).
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills it at once, as `kill -9` does, and waits until it is gone.
    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.exited(Duration::from_secs(10)).await;
    }

    /// Freezes it: it keeps its memory and sockets, and does nothing. A guarded process may be frozen when it ends.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.try_exit().is_none() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// How it ended, if it did: the exit code is its own, or 128 + the signal that ended it.
    pub fn try_exit(&self) -> Option<ExitStatus> {
        let mut guardian = self.guardian.lock().expect("no panic while locked");
        guardian.try_wait().unwrap_or_else(|e| panic!("cannot wait for {}: {e}", self.name))
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When `deadline` has passed.
    pub async fn exited(&self, deadline: Duration) -> ExitStatus {
        eventually(&format!("{} has ended", self.name), deadline, async || self.try_exit().ok_or("it is running")).await
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let guardian = self.guardian.get_mut().expect("no panic while locked");
        drop(guardian.stdin.take()); // tells the guardian
        let _ = guardian.wait();
    }
}

/// The pipes of a process that was started without a log file.
pub(crate) struct Output {
    /// Standard output.
    pub stdout: ChildStdout,
    /// Standard error; `None` for one with a log file.
    pub stderr: Option<std::process::ChildStderr>,
}

fn guardian(run: &Path) -> Command {
    let mut command = Command::new(places::program("outbox-guardian", "OUTBOX_GUARDIAN"));
    // Its own process group, so that Ctrl-C in a terminal reaches us and not it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).arg("--run").arg(run);
    command
}

/// Reads one line byte by byte: what follows it belongs to somebody else.
fn read_line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).is_ok_and(|count| count == 1) && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap_or_default()
}
