//! Why the relay ended.

use std::{error::Error, fmt};

/// What kind of failure ended the relay, with its exit code. Tens group the codes: 1x the database, 2x the broker, 3x the end; 2 is the
/// command line's own code for errors, and 70 is `EX_SOFTWARE` of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The command line or a setting.
    Usage = 2,
    /// The database cannot be reached or used.
    Database = 10,
    /// The database does not accept user or password.
    Authentication = 11,
    /// The server has no such database.
    NoDatabase = 12,
    /// The role lacks a right.
    NotPermitted = 13,
    /// The database has no outbox extension.
    ExtensionMissing = 14,
    /// The extension has a version that this relay does not work with.
    ExtensionVersion = 15,
    /// The server does not run with `wal_level = logical`.
    WalLevel = 16,
    /// The replication slot cannot be used.
    Slot = 17,
    /// RabbitMQ cannot be reached or used.
    Broker = 20,
    /// RabbitMQ refuses the user, the virtual host or the exchange.
    BrokerRefused = 21,
    /// The drain took longer than allowed.
    DrainTimeout = 30,
    /// None of these: a fault of the relay or of its machine.
    Internal = 70,
}

/// What ended the relay, and what to do about it.
///
/// `Display` is one whole line: what happened, the chain of causes, the hint. That is why `Error::source()` is empty:
/// a caller that also prints the chain would say everything twice.
pub struct RunError {
    kind: Kind,
    what: String,
    hint: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
    is_transient: bool,
}

impl RunError {
    /// An error of this kind: `what` names what failed, and where.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None, cause: None, is_transient: false }
    }

    /// Adds what the operator can do.
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

    /// Says whether another attempt of this same relay may succeed, as when a server starts or an upgrade is under way. By default it may not.
    #[must_use]
    pub fn transient_if(mut self, is_transient: bool) -> Self {
        self.is_transient = is_transient;
        self
    }

    /// Whether another attempt of this same relay, with the same settings, may succeed.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// Its kind, for the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The error and its causes in one line. Log errors by this: many say little by themselves (`db error`), and a log field
/// written as `%error` leaves their causes out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    with_causes(&error.to_string(), error.source())
}

fn with_causes(what: &str, mut cause: Option<&(dyn Error + 'static)>) -> String {
    let mut text = one_line(what);
    while let Some(error) = cause {
        let said = one_line(&error.to_string());
        // Many errors repeat their own source in their text.
        if !said.is_empty() && !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Server messages can have several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn a_cause_that_repeats_its_source_is_told_once() {
        let error = RunError::new(Kind::Database, "scan").source(Repeating(std::io::Error::other("refused")));
        assert_eq!(error.to_string(), "scan: db error: refused");
    }

    #[test]
    fn a_cause_of_several_lines_becomes_one() {
        let error = RunError::new(Kind::Slot, "slot").source("ERROR: in use\n  DETAIL: by 4711");
        assert_eq!(error.to_string(), "slot: ERROR: in use DETAIL: by 4711");
    }
}
