//! The commands: what the program can be told to do, beside relaying.
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | `line` | the command line | no |
//! | `status`, `check`, `events`, `life`, `replay`, `release`, `purge`, `tail`, `init`, `settings`, `shell`, `version` | a command each | yes |
//! | `question`, `filter`, `choice`, `event`, `interrupt` | what several have in common: how they are asked, which events, how one is read, how work is broken off | yes |
//! | `session`, `sql` | the session with the database, and every statement | yes |
//! | `output` | standard output, questions, progress | yes |
//! | `format` | tables, JSON, ages, times, and what a terminal must not be told | no |

mod check;
mod choice;
mod event;
mod events;
mod filter;
mod format;
mod init;
mod interrupt;
mod life;
mod line;
mod output;
mod purge;
mod question;
#[cfg(test)]
mod reference;
mod release;
mod replay;
mod session;
mod settings;
mod shell;
mod sql;
mod status;
mod tail;
mod version;

pub use self::{
    line::{Command, Errand, program, read},
    output::in_colour,
    settings::carry_out as config,
    shell::{completions, manual},
    version::carry_out as version,
};
use crate::{config::Config, error::RunError};

/// How an errand that was done ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As asked; all is well.
    Yes,
    /// Not so: something is wrong with what was looked at, nothing fits, or the person who was asked has said no.
    No,
    /// Only a part was done: a signal has ended it, which has this exit code.
    Interrupted(u8),
}

/// Carries out an errand.
///
/// # Errors
///
/// It could not be done, or only a part of it.
pub async fn carry_out(errand: Errand, config: &Config) -> Result<Answer, RunError> {
    match errand {
        Errand::Init(options) => init::carry_out(config, options).await,
        Errand::Check(options) => check::carry_out(config, options).await,
        Errand::Status(options) => status::carry_out(config, options).await,
        Errand::Events(options) => events::carry_out(config, options).await,
        Errand::Replay(options) => replay::carry_out(config, options).await,
        Errand::Release(options) => release::carry_out(config, options).await,
        Errand::Purge(options) => purge::carry_out(config, options).await,
        Errand::Tail(options) => tail::carry_out(config, options).await,
    }
}
