//! The commands: what the program can be told to do, beside relaying.
//!
//! | module | what it is |
//! |---|---|
//! | `status`, `events`, `life`, `replay`, `release`, `purge`, `tail`, `init`, and [`check`](crate::check) | a command each |
//! | `filter`, `choice` | what several have in common: which events |

mod choice;
mod events;
mod filter;
mod init;
mod life;
mod purge;
mod release;
mod replay;
mod status;
mod tail;

use clap::Subcommand;
use outbox_service::error::RunError;

pub use crate::terminal::Answer;
use crate::{Config, check};

/// A command that asks or tells a server something, and ends.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "each says at its own place what it does")]
pub enum Errand {
    Init(init::Options),
    Check(check::Options),
    Status(status::Options),
    Events(events::Options),
    Replay(replay::Options),
    Release(release::Options),
    Purge(purge::Options),
    Tail(tail::Options),
}

/// Carries out an errand.
///
/// # Errors
///
/// It could not be done, or only a part of it.
pub async fn carry_out(errand: Errand, config: &Config) -> Result<Answer, RunError> {
    let relay = &config.relay;
    match errand {
        Errand::Init(options) => init::carry_out(relay, options).await,
        Errand::Check(options) => check::carry_out(config, options).await,
        Errand::Status(options) => status::carry_out(relay, options).await,
        Errand::Events(options) => events::carry_out(relay, options).await,
        Errand::Replay(options) => replay::carry_out(relay, options).await,
        Errand::Release(options) => release::carry_out(relay, options).await,
        Errand::Purge(options) => purge::carry_out(relay, options).await,
        Errand::Tail(options) => tail::carry_out(relay, options).await,
    }
}
