//! Log lines go to standard error, for people or as JSON. Standard output is for the results of commands.

use std::{
    fmt::Display,
    io::{Write, stderr},
    sync::OnceLock,
};

use outbox_console::{format::escaped, terminal::output::in_colour};
use outbox_service::error::{Kind, RunError};
use tracing::{Level, Metadata, error};
use tracing_subscriber::{EnvFilter, filter::filter_fn, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// The form of log lines, for code that cannot reach the settings, such as the panic hook.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Returns the form of log lines; text until [`start`] was called.
pub(crate) fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or(LogFormat::Text)
}

/// Starts logging as configured.
pub(crate) fn start(config: &Config) -> Result<(), RunError> {
    let filter = EnvFilter::builder()
        .parse(&config.log)
        .map_err(|error| RunError::new(Kind::Usage, format!("log = {}", config.log)).source(error))?;
    let lines = fmt().with_env_filter(filter).with_writer(stderr).log_internal_errors(false);
    let started = match config.log_format {
        LogFormat::Text => {
            lines.with_ansi(in_colour(&stderr())).compact().finish().with(filter_fn(shows_no_parameters)).try_init()
        }
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .finish()
            .with(filter_fn(shows_no_parameters))
            .try_init(),
    };
    started.map_err(|error| RunError::new(Kind::Internal, "cannot start logging").source(error))?;
    FORMAT.get_or_init(|| config.log_format);
    Ok(())
}

/// Whether a log line shows no statement parameters. Below info, tokio-postgres logs the parameters of every statement,
/// and they contain the broker's error texts.
fn shows_no_parameters(line: &Metadata<'_>) -> bool {
    *line.level() <= Level::INFO || !line.target().starts_with("tokio_postgres")
}

/// Logs why a run failed, as its last line and in the form of the lines before it.
pub(crate) fn failure(format: LogFormat, failed: &RunError, code: u8) {
    if format == LogFormat::Json && tracing::enabled!(target: "relay", Level::ERROR) {
        error!(target: "relay", kind = ?failed.kind(), exit_code = code, "{failed}");
    } else {
        complain(failed);
    }
}

/// Prints a plain line to standard error, escaped because parts of it may come from a server. A failed write is
/// ignored: no place is left to report it.
pub(crate) fn complain(what: impl Display) {
    let _ = writeln!(stderr(), "outbox-relay: {}", escaped(&what.to_string()));
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{debug, info, subscriber::with_default};

    use super::*;

    #[test]
    fn statement_parameters_stay_out_of_the_log_at_every_level() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let lines = fmt().with_max_level(Level::TRACE).with_ansi(false).with_writer(move || Sink(Arc::clone(&sink)));
        with_default(lines.finish().with(filter_fn(shows_no_parameters)), || {
            debug!(target: "tokio_postgres::query", "executing statement s0 with parameters");
            info!(target: "tokio_postgres::connection", "NOTICE");
            debug!(target: "relay", "a line of ours");
        });
        let log = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
        assert!(!log.contains("parameters"), "{log}");
        assert!(log.contains("NOTICE") && log.contains("a line of ours"), "{log}");
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
