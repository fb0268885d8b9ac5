//! How the demo ends when something does not hold.

use std::{process::ExitCode, sync::OnceLock, thread};

/// Runs `demo` on a thread of that name (databases and vhosts are called after it). If it panics, everything that it
/// started is ended first, so that the reason stands last, where people look.
pub(crate) fn watched(demo: impl FnOnce() + Send + 'static) -> ExitCode {
    static REASON: OnceLock<String> = OnceLock::new();
    std::panic::set_hook(Box::new(|panic| {
        let reason = panic.payload_as_str().unwrap_or("it ended without a reason");
        // The first one is the cause; others follow from it.
        let _ = REASON.set(match panic.location() {
            Some(place) => format!("{reason}\n({}:{})", place.file(), place.line()),
            None => reason.to_owned(),
        });
    }));
    let thread = thread::Builder::new().name("demo".to_owned()).spawn(demo).expect("a thread");
    if thread.join().is_ok() {
        return ExitCode::SUCCESS;
    }
    eprintln!("\nThe demo failed: {}", REASON.get().map_or("", String::as_str));
    ExitCode::FAILURE
}
