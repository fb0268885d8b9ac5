//! The errors that end the relay, with their exit codes.

use std::{error::Error, fmt};

use tokio_postgres::error::DbError;

use crate::legible::statement;

/// The kind of failure that ended the relay; the number is the exit code. Codes are grouped: 1x the database, 2x the
/// broker, 3x the shutdown; 2 is the usual code of command line errors, and 70 is `EX_SOFTWARE` of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The command line or a setting is wrong.
    Usage = 2,
    /// The database cannot be reached or used.
    Database = 10,
    /// The database refuses the user or the password.
    Authentication = 11,
    /// The server has no such database.
    NoDatabase = 12,
    /// The role lacks a right.
    NotPermitted = 13,
    /// The database has no outbox extension.
    ExtensionMissing = 14,
    /// The extension's version does not fit this relay's.
    ExtensionVersion = 15,
    /// The server does not run with `wal_level = logical`.
    WalLevel = 16,
    /// The replication slot cannot be used.
    Slot = 17,
    /// The broker cannot be reached or used.
    Broker = 20,
    /// The broker refuses the user, or the destination.
    BrokerRefused = 21,
    /// The drain took longer than allowed.
    DrainTimeout = 30,
    /// A fault of the relay itself or of its machine.
    Internal = 70,
}

/// The failure that ended the relay, with a hint for the operator.
///
/// `Display` is one line: what happened, the chain of causes, the hint. `Error::source()` is therefore empty: a caller
/// that also prints the chain would print every cause twice.
pub struct RunError {
    kind: Kind,
    what: String,
    hint: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
    is_transient: bool,
}

impl RunError {
    /// An error of this kind; `what` names the failed operation and its place.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None, cause: None, is_transient: false }
    }

    /// Adds a hint: what the operator can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause, which must not show a secret.
    #[must_use]
    pub fn source(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Marks the error as transient: the same relay may succeed later, for example because a server is starting or an
    /// upgrade is under way. Errors are permanent by default.
    #[must_use]
    pub fn transient_if(mut self, is_transient: bool) -> Self {
        self.is_transient = is_transient;
        self
    }

    /// Whether the same relay with the same settings may succeed later.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// The error's kind, which is the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The error and its causes in one line. Errors are logged by this function, because many say little by themselves
/// (`db error`) and a log field written as `%error` leaves the causes out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    with_causes(&error.to_string(), error.source())
}

fn with_causes(what: &str, mut cause: Option<&(dyn Error + 'static)>) -> String {
    let mut text = one_line(what);
    while let Some(error) = cause {
        let reason = error.downcast_ref().map_or_else(|| one_line(&error.to_string()), words);
        // Many errors repeat their own source in their text.
        if !reason.is_empty() && !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    text
}

/// What a server has said, as its `Display` has it, but in one line, and with a hint whose statement can be copied.
fn words(error: &DbError) -> String {
    let mut words = format!("{}: {}", error.severity(), one_line(error.message()));
    for (name, text) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
        if let Some(text) = text {
            words.push_str(&format!(" {name}: {}", one_line(&statement(text))));
        }
    }
    words
}

/// Joins the lines of a text; messages of servers can have several. A line break within double quotes is part of a
/// name, and becomes `\n`: as a space, it would make the name another's.
pub(crate) fn one_line(text: &str) -> String {
    let mut joined = String::new();
    for line in text.split(['\n', '\r']) {
        if joined.matches('"').count() % 2 == 1 {
            joined.push_str("\\n");
            joined.push_str(line);
        } else if !line.trim().is_empty() {
            joined.truncate(joined.trim_end().len());
            joined.push_str(if joined.is_empty() { "" } else { " " });
            joined.push_str(line.trim_start());
        }
    }
    joined.truncate(joined.trim_end().len());
    joined
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(&self.what, self.cause.as_deref().map(|cause| cause as _)))?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {})", one_line(hint)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl Error for RunError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect to db:5432")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("db error: {0}")]
    struct Repeating(#[source] std::io::Error);

    #[test]
    fn the_line_has_the_chain_of_causes_and_the_hint() {
        let error = RunError::new(Kind::Database, "startup")
            .source(Outer(std::io::Error::other("refused")))
            .hint("is PostgreSQL running?");
        assert_eq!(error.to_string(), "startup: cannot connect to db:5432: refused (hint: is PostgreSQL running?)");
        assert_eq!(error.kind(), Kind::Database);
    }

    #[test]
    fn a_cause_that_repeats_its_source_is_shown_once() {
        let error = RunError::new(Kind::Database, "scan").source(Repeating(std::io::Error::other("refused")));
        assert_eq!(error.to_string(), "scan: db error: refused");
    }

    #[test]
    fn a_cause_of_several_lines_becomes_one() {
        let error = RunError::new(Kind::Slot, "slot").source("ERROR: in use\n  DETAIL: by 4711");
        assert_eq!(error.to_string(), "slot: ERROR: in use DETAIL: by 4711");
    }

    #[test]
    fn a_name_in_quotes_stays_the_same_name() {
        let error = RunError::new(Kind::NotPermitted, " refused \n").hint("GRANT x TO \"a  b\tc\nd \n e\" \n\n or not");
        assert_eq!(error.to_string(), "refused (hint: GRANT x TO \"a  b\tc\\nd \\n e\" or not)");
    }
}
