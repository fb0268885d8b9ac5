//! Output of commands: results go to standard output, for people or as JSON; notes and questions go to standard error.

use std::io::{self, IsTerminal, Write, stderr, stdin, stdout};

use outbox_service::error::{Kind, RunError};
use serde::Serialize;

use crate::format::{Tone, json_line};

/// The form of a command's output.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Form {
    /// Print JSON, one object a line; the field names are stable
    #[arg(long)]
    json: bool,
}

impl Form {
    /// Whether the output is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }
}

/// Standard output. Once its reader has closed it, as `head` does, further output is dropped.
#[derive(Debug)]
pub struct Output {
    /// Whether the output is JSON, an object a line.
    pub json: bool,
    in_colour: bool,
    is_closed: bool,
}

impl Output {
    /// Makes standard output in this form.
    pub fn new(form: Form) -> Self {
        Self { json: form.json, in_colour: !form.json && in_colour(&stdout()), is_closed: false }
    }

    /// Whether the reader has closed the output.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether the output has colours.
    pub fn in_colour(&self) -> bool {
        self.in_colour
    }

    /// Returns the text in a tone, if the output has colours.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.in_colour)
    }

    /// Prints text. The caller has escaped foreign parts of it.
    pub fn print(&mut self, text: &str) -> Result<(), RunError> {
        if self.is_closed {
            return Ok(());
        }
        let mut out = stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            written => {
                written.map_err(|error| RunError::new(Kind::Internal, "cannot write to standard output").source(error))
            }
        }
    }

    /// Prints one object as a line of JSON.
    pub fn object(&mut self, value: &impl Serialize) -> Result<(), RunError> {
        self.print(&json_line(value))
    }
}

/// Whether output to this stream has colours: on a terminal, unless `NO_COLOR` (<https://no-color.org>) is set.
pub fn in_colour(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a note for people on standard error.
pub fn note(text: &str) {
    let _ = writeln!(stderr(), "{text}"); // no place is left to report a failure
}

/// Hint for a command that has `--dry-run`.
pub(crate) const TRY_FIRST: &str = "say --yes to go on without a question, or --dry-run to see what would be done";

/// Whether a change is confirmed, by `yes` in a script or by the answer of a person.
///
/// # Errors
///
/// No terminal is there to ask on. The hint is `instead`, which is [`TRY_FIRST`] for commands with `--dry-run`.
pub(crate) fn confirmed(question: &str, yes: bool, instead: &str) -> Result<bool, RunError> {
    if yes {
        return Ok(true);
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(RunError::new(Kind::Usage, format!("{question} There is no terminal to ask on")).hint(instead));
    }
    let _ = write!(stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES"))
}

/// Progress of long work, on one line of the terminal that is overwritten; nothing without a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: i64,
    done: i64,
    shown_percent: i64,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str, total: i64) -> Self {
        Self { what, total, done: 0, shown_percent: -1, is_shown: stderr().is_terminal() }
    }

    /// Adds finished work.
    pub(crate) fn advance(&mut self, by: i64) {
        self.done = self.done.saturating_add(by).min(self.total);
        let percent = if self.total > 0 { self.done.saturating_mul(100) / self.total } else { 100 };
        if self.is_shown && percent != self.shown_percent {
            self.shown_percent = percent;
            let filled = usize::try_from(percent / 4).unwrap_or_default();
            let bar = "#".repeat(filled) + &".".repeat(25_usize.saturating_sub(filled));
            let _ = write!(stderr(), "\r{} [{bar}] {percent:>3} %", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown_percent >= 0 {
            let _ = write!(stderr(), "\r\u{1b}[K"); // erases the line (EL, ECMA-48)
        }
    }
}
