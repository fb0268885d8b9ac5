//! Where answers go: standard output, for people or as JSON; notes and questions go to standard error.

use std::io::{self, IsTerminal, Write, stderr, stdin, stdout};

use outbox_service::error::{Kind, RunError};
use serde::Serialize;

use crate::format::{Tone, json_line};

/// In which form a command answers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Form {
    /// Print JSON, one object a line; the field names are stable
    #[arg(long)]
    json: bool,
}

impl Form {
    /// Whether programs read the answer.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }
}

/// Standard output. Once whoever reads it has gone, as `head` does, everything is passed over.
#[derive(Debug)]
pub struct Output {
    /// Whether programs read the answer, an object a line.
    pub json: bool,
    in_colour: bool,
    is_closed: bool,
}

impl Output {
    /// Standard output, in this form.
    pub fn new(form: Form) -> Self {
        Self { json: form.json, in_colour: !form.json && in_colour(&stdout()), is_closed: false }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether people read, who have colours.
    pub fn in_colour(&self) -> bool {
        self.in_colour
    }

    /// The text in a tone, if there are colours.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.in_colour)
    }

    /// Prints text, which has been escaped where others have written it.
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

    /// Prints one object.
    pub fn object(&mut self, value: &impl Serialize) -> Result<(), RunError> {
        self.print(&json_line(value))
    }
}

/// Whether what is written there is in colour: on a terminal, unless `NO_COLOR` (see <https://no-color.org>) is set.
pub fn in_colour(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Tells people something beside the answer.
pub(crate) fn note(text: &str) {
    let _ = writeln!(stderr(), "{text}"); // there is nowhere left to report a failure
}

/// What to say to a command that has `--dry-run`.
pub(crate) const TRY_FIRST: &str = "say --yes to go on without a question, or --dry-run to see what would be done";

/// Whether what is to be done may be done: `yes` says so in a script, and a person is asked.
///
/// # Errors
///
/// Nobody is there to be asked. The error says what to say instead, [`TRY_FIRST`] for what can be tried.
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

/// How far long work is, on a line of the terminal that is written over; nothing where there is no terminal.
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

    /// So much more is done.
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
            let _ = write!(stderr(), "\r\u{1b}[K"); // away with it (EL, ECMA-48)
        }
    }
}
