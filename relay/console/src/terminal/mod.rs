//! The terminal: output, questions, and interruption by signals.

pub(crate) mod interrupt;
pub mod output;
pub(crate) mod query_args;

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done as requested; all is well.
    Yes,
    /// No: a problem was found, nothing matched, or the person answered no.
    No,
    /// A signal has ended the work before its end; the exit code is the signal's.
    Interrupted(u8),
}
