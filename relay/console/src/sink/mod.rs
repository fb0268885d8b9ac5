//! What people ask of a sink: whether a relay could publish to its broker, and what arrives there.

mod body;
pub mod kafka;
pub mod rabbitmq;

use std::{fmt::Display, future::Future, time::Duration};

use outbox_service::{Config, error::RunError};
use serde::Serialize;
use tokio_postgres::Client;

use crate::findings::Report;

/// What to do if the relay's role may not read events.
const MAY_NOT_READ: &str =
    "check with the relay's settings and the DATABASE_URL of a role that has outbox.grant_operate()";

/// A finding that depends on whether a relay is at work, which another check finds out.
pub(crate) type OnceKnown = fn(&Config, is_at_work: bool, &mut Report);

/// What `check` and `tail` ask of one kind of broker.
pub trait Sink {
    /// The broker's messages, as `tail` receives them.
    type Tail: Tail;

    /// The names of its checks, in the order in which findings are printed. `broker` is the check of the connection.
    const CHECKS: &'static [&'static str];

    /// What `tail` asks before it begins; `None`: it changes nothing for anybody.
    const QUESTION: Option<&'static str>;

    /// The broker's address as configured, without its password; `None`: it is not set.
    fn address(config: &Config) -> Option<&dyn Display>;

    /// Checks the connection, its certificate and the default destination, and changes nothing.
    fn check_broker(config: &Config, report: &mut Report) -> impl Future<Output = Option<OnceKnown>>;

    /// Checks the destinations of the last events, by what the table says.
    fn check_routes(config: &Config, client: &Client, report: &mut Report) -> impl Future<Output = ()>;

    /// Begins to receive what the patterns select, within `limit`; with headers and payload, if `payload` says so.
    fn tail(
        config: &Config,
        patterns: &[String],
        payload: bool,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Tail, RunError>>;
}

/// Messages that arrive at a broker.
pub trait Tail {
    /// A message, to be shown as JSON or to people.
    type Message: Message;

    /// What is shown, as the end of a sentence.
    fn source(&self) -> String;

    /// Waits for the next message.
    fn next(&mut self) -> impl Future<Output = Result<Self::Message, RunError>>;

    /// Keeps the connection alive while a message is printed; ends when the connection is lost.
    fn keep_alive(&mut self) -> impl Future<Output = RunError>;

    /// Takes note that the last message was printed.
    fn printed(&mut self);

    /// Closes the connection properly.
    fn close(self) -> impl Future<Output = ()>;
}

/// A message that has arrived at a broker.
pub trait Message: Serialize + Send + 'static {
    /// Formats the message for people: one line, and further ones for headers and payload.
    fn line(&self, in_colour: bool) -> String;
}
