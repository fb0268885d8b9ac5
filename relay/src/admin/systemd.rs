//! systemd's protocol for services: `READY=1` once the relay streams or waits for its turn, `WATCHDOG=1` as long as its loop turns,
//! `STATUS=` the sentence of `/readyz` (<https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>).

use std::{
    future::pending,
    time::{Duration, Instant},
};

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::observe::{Observed, Readiness, State};

/// How soon systemd learns of a change.
const LOOK: Duration = Duration::from_millis(500);

/// Whether systemd, or whoever stands in for it, asks to be told.
pub(super) fn is_asked() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// Tells what happens, forever.
pub(super) async fn tell(observed: &Observed) {
    if !is_asked() {
        return pending().await;
    }
    // Half of what is allowed, as sd_watchdog_enabled(3) recommends.
    let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 2);
    let mut looks = interval(watchdog.map_or(LOOK, |half| half.min(LOOK)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_ready, mut last) = (false, String::new());
    loop {
        looks.tick().await;
        let view = observed.view();
        if !is_ready && matches!(view.state(), State::Streaming | State::Standby) {
            is_ready = true;
            notify(&[NotifyState::Ready]);
        }
        if watchdog.is_some() && observed.is_alive() {
            notify(&[NotifyState::Watchdog]);
        }
        let readiness = Readiness::of(&view, Instant::now());
        if readiness.sentence() != last {
            notify(&[NotifyState::Status(readiness.sentence())]);
            last = readiness.sentence().to_owned();
        }
    }
}

/// Tells that the relay ends.
pub(super) fn stopping() {
    if is_asked() {
        notify(&[NotifyState::Stopping]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(target: "relay", %error, "systemd cannot be told of the relay's state");
    }
}
