//! A panic of any thread ends the process. Otherwise a thread could die unnoticed and leave a relay without its
//! dashboard, its metrics or its retention.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{PanicHookInfo, set_hook},
};

use outbox_service::{
    error::{Kind, RunError},
    redact::redacted,
};

use crate::cli::{exit, logging};

/// Installs a panic hook that logs where the panic was and exits with the code of [`Kind::Internal`].
pub(crate) fn end_the_process() {
    set_hook(Box::new(|panic| {
        let failed = RunError::new(Kind::Internal, sentence(panic))
            .hint("this is a fault of the relay: please report it; events without a verdict are still PENDING");
        let code = exit::code(Kind::Internal);
        logging::failure(logging::format(), &failed, code);
        let trace = Backtrace::capture(); // captured only if RUST_BACKTRACE is set
        if trace.status() == BacktraceStatus::Captured {
            logging::complain(trace);
        }
        std::process::exit(code.into());
    }));
}

fn sentence(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let why = panic.payload_as_str().unwrap_or("no reason is given");
    format!("the thread {:?} panicked{place}: {}", thread.name().unwrap_or("?"), redacted(why))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread, time::Duration};

    use super::*;

    const CHILD: &str = "OUTBOX_TEST_PANICS";

    /// The test starts its own executable again, because a panic ends the process.
    #[test]
    fn a_thread_that_panics_ends_the_process_with_code_70_and_says_where() {
        if std::env::var_os(CHILD).is_some() {
            end_the_process();
            let _ = thread::Builder::new().name("retention".to_owned()).spawn(|| panic!("two and two are five"));
            thread::sleep(Duration::from_secs(60));
            return;
        }
        let name = "cli::panic::tests::a_thread_that_panics_ends_the_process_with_code_70_and_says_where";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output();
        let child = child.unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(70), "{stderr}");
        let line = "outbox-relay: the thread \"retention\" panicked at ";
        assert!(
            stderr.contains(line) && stderr.contains("panic.rs:") && stderr.contains(": two and two are five (hint: "),
            "{stderr}"
        );
    }
}
