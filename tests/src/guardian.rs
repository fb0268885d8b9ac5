//! The program `outbox-guardian`: runs one command, and ends it and everything it started when standard input closes.
//!
//! Standard input is a pipe whose other end the test process holds. The kernel closes it when that process ends, even
//! by SIGKILL, and libtest has no other end of a run to hook into. The guardian is a child subreaper, so daemons that
//! the command leaves behind (Erlang's epmd) become its children and end too.
//!
//! ```text
//! outbox-guardian --run FOLDER [--log FILE] [--user NAME] [--stop SIGNAL] -- COMMAND [ARGUMENT…]
//! outbox-guardian --run FOLDER [--keep] --keeper
//! ```
//! The first line of output is the command's process id; what follows is its own (or goes to `--log`). The second form
//! is the run folder's keeper: it makes the folder, and removes it when its own input is closed and no guardian uses
//! the folder any more.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use crate::{places::make_folder, processes::children_of};

/// How long a server may take over `--stop` before it is killed. An immediate shutdown of PostgreSQL takes 0.1 s.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until the command has ended or standard input is closed. The exit code is the command's, or 128 + its signal.
///
/// # Errors
/// Bad arguments, and a command that cannot be started.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let options = Options::parse(arguments)?;
    if options.keeper {
        return keep(&options);
    }
    let stop = signal(&options.stop)?;
    set_child_subreaper(Some(getpid())).map_err(|e| format!("prctl(PR_SET_CHILD_SUBREAPER): {e}"))?;
    // The keeper cannot take the folder away before this lock is gone; if it already has, nothing must start.
    let lock = File::open(options.run.join("lock")).map_err(|e| format!("the run is over: {e}"))?;
    lock.lock_shared().map_err(|e| format!("cannot lock {}: {e}", options.run.display()))?;

    let mut child = spawn(&options)?;
    let pid = Pid::from_child(&child);
    println!("{}", child.id());
    drop(child.stdin.take()); // it goes on
    let status = match wait_for_either(child)? {
        Event::Exited(status) => Some(status),
        Event::InputClosed(exited) => {
            let _ = kill_process(pid, stop);
            let _ = kill_process(pid, Signal::CONT); // one that was frozen has to run to end
            exited.recv_timeout(GRACE).ok()
        }
    };
    kill_descendants();
    let code = status.and_then(|s| s.code().or_else(|| s.signal().map(|signal| 128 + signal)));
    Ok(ExitCode::from(code.and_then(|c| u8::try_from(c).ok()).unwrap_or(137)))
}

enum Event {
    Exited(ExitStatus),
    InputClosed(mpsc::Receiver<ExitStatus>),
}

fn wait_for_either(mut child: Child) -> Result<Event, String> {
    let (exit, exited) = mpsc::sync_channel(1);
    let (closed, event) = mpsc::sync_channel(2);
    let ended = closed.clone();
    thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        closed.send(None)
    });
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = exit.send(status);
            let _ = ended.send(Some(status));
        }
    });
    match event.recv() {
        Ok(Some(status)) => Ok(Event::Exited(status)),
        Ok(None) => Ok(Event::InputClosed(exited)),
        Err(_) => Err("lost its child".to_owned()),
    }
}

fn spawn(options: &Options) -> Result<Child, String> {
    // setpriv becomes the command. Its parent-death signal covers even a SIGKILL of the guardian. In between, a shell
    // waits until its input is closed: the command's output must not come before its process id.
    const WHEN_TOLD: &str = "read -r _; exec \"$@\" </dev/null";
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", &options.stop]);
    if let Some(user) = &options.user {
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--init-groups".to_owned()]);
    }
    command.args(["sh", "-c", WHEN_TOLD, "sh"]).args(&options.command).stdin(Stdio::piped());
    if let Some(log) = &options.log {
        let open = || File::options().create(true).append(true).open(log);
        let (out, err) =
            open().and_then(|out| Ok((out.try_clone()?, out))).map_err(|e| format!("{}: {e}", log.display()))?;
        command.stdout(out).stderr(err);
    }
    command.spawn().map_err(|e| format!("setpriv: {e}"))
}

/// Kills every child until there is none; their own children then become ours.
fn kill_descendants() {
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        for pid in children_of(std::process::id()) {
            let _ = kill_process(pid, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Err(_) => return, // no child left
            Ok(Some(_)) => {}
            Ok(None) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn keep(options: &Options) -> Result<ExitCode, String> {
    // Made here, not by the process that wants it, so that no moment exists in which the folder has nobody to remove
    // it.
    make_folder(&options.run);
    let lock = File::create(options.run.join("lock")).map_err(|e| format!("{}: {e}", options.run.display()))?;
    println!("{}", std::process::id());
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    lock.lock().map_err(|e| e.to_string())?; // until the last guardian has gone
    if !options.keep {
        remove(&options.run)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(folder: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(folder).map_err(|e| format!("cannot remove {}: {e}", folder.display()))
}

struct Options {
    run: PathBuf,
    log: Option<PathBuf>,
    user: Option<String>,
    stop: String,
    keep: bool,
    keeper: bool,
    command: Vec<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            run: PathBuf::new(),
            log: None,
            user: None,
            stop: "KILL".to_owned(),
            keep: false,
            keeper: false,
            command: Vec::new(),
        };
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--run" => options.run = value()?.into(),
                "--log" => options.log = Some(value()?.into()),
                "--user" => options.user = Some(value()?),
                "--stop" => options.stop = value()?,
                "--keep" => options.keep = true,
                "--keeper" => options.keeper = true,
                "--" => options.command = arguments.by_ref().collect(),
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        if options.run.as_os_str().is_empty() || options.keeper != options.command.is_empty() {
            return Err("wants --run FOLDER, and --keeper or -- COMMAND".to_owned());
        }
        Ok(options)
    }
}

fn signal(name: &str) -> Result<Signal, String> {
    match name {
        "INT" => Ok(Signal::INT),
        "KILL" => Ok(Signal::KILL),
        "QUIT" => Ok(Signal::QUIT),
        "TERM" => Ok(Signal::TERM),
        _ => Err(format!("unknown signal {name}")),
    }
}
