//! The commands that connect to a server and end.
//!
//! | module | what it is |
//! |---|---|
//! | `status`, `events`, `replay`, `release`, `purge`, `tail`, `init`, `check` | a command each |
//! | `event_detail` | `events` with one id |
//! | `filter`, `selection` | the arguments that several share: which events |

mod event_detail;
mod events;
mod filter;
mod init;
mod purge;
mod release;
mod replay;
mod selection;
mod status;
mod tail;

use clap::Subcommand;
use outbox_service::error::RunError;

pub use crate::terminal::Answer;
use crate::{Config, check, sink::Sink};

/// A command that connects to a server, and ends.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "each command is documented at its own type")]
pub enum ClientCommand {
    Init(init::Options),
    Check(check::Options),
    Status(status::Options),
    Events(events::Options),
    Replay(replay::Options),
    Release(release::Options),
    Purge(purge::Options),
    Tail(tail::Options),
}

/// Runs a command; `S` is the sink that it may ask.
///
/// # Errors
///
/// The command failed, or did only a part of its work.
pub async fn run<S: Sink>(command: ClientCommand, config: &Config) -> Result<Answer, RunError> {
    let relay = &config.relay;
    match command {
        ClientCommand::Init(options) => init::run(relay, options).await,
        ClientCommand::Check(options) => check::run::<S>(config, options).await,
        ClientCommand::Status(options) => status::run(relay, options).await,
        ClientCommand::Events(options) => events::run(relay, options).await,
        ClientCommand::Replay(options) => replay::run(relay, options).await,
        ClientCommand::Release(options) => release::run(relay, options).await,
        ClientCommand::Purge(options) => purge::run(relay, options).await,
        ClientCommand::Tail(options) => tail::run::<S>(relay, options).await,
    }
}
