//! Where people sit: what they are told and asked, and how they break work off.

pub(crate) mod interrupt;
pub mod output;
pub(crate) mod query_args;

/// How a command that was done ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As asked; all is well.
    Yes,
    /// Not so: something is wrong with what was looked at, nothing fits, or the person who was asked has said no.
    No,
    /// Only a part was done: a signal has ended it, which has this exit code.
    Interrupted(u8),
}
