//! `outbox-guardian`: ends a server when the process that started it ends. See [`harness::guardian`].

use std::process::ExitCode;

fn main() -> ExitCode {
    match harness::guardian::run(std::env::args().skip(1)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("outbox-guardian: {error}");
            ExitCode::from(2)
        }
    }
}
