//! systemd's protocol for services (<https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>):
//! `READY=1` once the relay streams or is a standby, or has been starting for a while; `WATCHDOG=1` as long as its loop
//! is alive; `STATUS=` the sentence of `/readyz` without its times.

use std::{
    env,
    ffi::OsStr,
    fmt::Write,
    future::pending,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::{Duration, Instant},
};

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use outbox_service::{
    error::{Kind, RunError},
    observe::{Observed, Readiness, State},
    redact::redacted,
    repeats::Repeats,
};

/// Variable that names systemd's socket.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Interval of the notifications, so the longest delay with which systemd learns of a change.
const INTERVAL: Duration = Duration::from_millis(500);

/// Longest delay of `READY=1`. A relay may wait for hours for a server, an upgrade or the end of a backlog, and
/// `systemctl start`, perhaps called by a package manager, must not; permanent errors end the relay sooner.
const START: Duration = Duration::from_secs(10);

/// Shortest watchdog time: the thread notifies twice as often, and would do little else below this.
const SHORTEST_WATCHDOG: Duration = Duration::from_millis(1);

/// Whether systemd, or a substitute, listens for notifications.
pub(super) fn is_asked() -> bool {
    env::var_os(NOTIFY_SOCKET).is_some_and(|socket| !socket.is_empty())
}

/// Returns the time of systemd's watchdog; `None` if it does not watch this process.
///
/// # Errors
///
/// The variable is not a number of microseconds, or is too short to be kept: systemd would kill the relay.
pub(super) fn watchdog() -> Result<Option<Duration>, RunError> {
    let text = |name| env::var_os(name).map(|value| value.to_string_lossy().trim().to_owned());
    let (limit, process) = (text("WATCHDOG_USEC").filter(|text| !text.is_empty()), text("WATCHDOG_PID"));
    let is_for_another = process.is_some_and(|pid| pid.parse() != Ok(std::process::id()));
    let Some(limit) = limit.filter(|_| is_asked() && !is_for_another) else { return Ok(None) };
    let parsed = limit.parse().ok().map(Duration::from_micros).filter(|limit| *limit >= SHORTEST_WATCHDOG);
    let bad = || {
        RunError::new(
            Kind::Usage,
            format!("WATCHDOG_USEC={}: not a time in microseconds of 1 ms or more", redacted(&limit)),
        )
        .hint("set WatchdogSec=30s in the unit, or leave it out")
    };
    parsed.map(Some).ok_or_else(bad)
}

/// Notifies systemd of the relay's state, forever. `watchdog` comes from [`watchdog`].
pub(super) async fn notify_systemd(observed: &Observed, watchdog: Option<Duration>) {
    if !is_asked() {
        return pending().await;
    }
    // The interval is half of the watchdog's time, as sd_watchdog_enabled(3) recommends.
    let watchdog = watchdog.map(|limit| limit / 2);
    let mut ticks = interval(watchdog.map_or(INTERVAL, |half| half.min(INTERVAL)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = Instant::now();
    let (mut is_ready, mut last, mut failed) = (false, String::new(), Repeats::default());
    loop {
        ticks.tick().await;
        let view = observed.view();
        let is_up = matches!(view.state(), State::Streaming | State::Standby) || began.elapsed() >= START;
        if !is_ready && is_up {
            is_ready = notify(&NotifyState::Ready, &mut failed);
        }
        if watchdog.is_some() && observed.is_alive() {
            notify(&NotifyState::Watchdog, &mut failed);
        }
        let readiness = Readiness::without_times(&view, Instant::now());
        if readiness.sentence() != last && notify(&NotifyState::Status(readiness.sentence()), &mut failed) {
            last = readiness.sentence().to_owned();
        }
    }
}

/// Notifies systemd that the relay stops.
pub(super) fn stopping() {
    if is_asked() {
        notify(&NotifyState::Stopping, &mut Repeats::default());
    }
}

/// Notifies systemd; returns whether that worked, and logs a failure.
fn notify(state: &NotifyState<'_>, failed: &mut Repeats) -> bool {
    let sent = send(state);
    if let Err(error) = &sent {
        let (is_news, times) = failed.count(&error.to_string());
        if is_news {
            warn!(target: "relay", %error, times, "systemd cannot be told of the relay's state");
        }
    }
    sent.is_ok()
}

/// Sends a notification without waiting. The crate's own `notify` takes each name for a path, and waits: a full socket
/// would stop all HTTP.
fn send(state: &NotifyState<'_>) -> io::Result<()> {
    let name = env::var_os(NOTIFY_SOCKET).unwrap_or_default();
    let mut message = String::new();
    let _ = writeln!(message, "{state}"); // writing to a String cannot fail
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address(&name)?).map(drop)
}

/// Returns the socket's address: a path, or a name in Linux's abstract namespace, which systemd writes with an @ before
/// it.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
