//! What every step works with.

use harness::{Connection, Consumer, Postgres, RabbitMq, Relay, Stack};
use uuid::Uuid;

use crate::{load::Emitted, screen::Screen};

/// The running stack, and what has been emitted. Dropped from top to bottom.
pub(crate) struct Demo {
    /// Where everything is shown.
    pub(crate) screen: Screen,
    /// A lapin client whose queue is bound to the relay's exchange by `orders.*`.
    pub(crate) consumer: Consumer,
    /// The relay that runs now.
    pub(crate) relay: Relay,
    /// The application's session, as role `shop`.
    pub(crate) shop: Connection,
    /// Database (as superuser) and vhost.
    pub(crate) stack: Stack,
    /// The broker.
    pub(crate) rabbitmq: RabbitMq,
    /// The database server.
    pub(crate) postgres: Postgres,
    /// Ids of all committed events so far.
    pub(crate) committed: Vec<Uuid>,
    /// Ids that `emit()` gave to transactions that were rolled back.
    pub(crate) rolled_back: Vec<Uuid>,
    /// The most memory that a relay held which no longer runs.
    pub(crate) peak_rss_bytes: u64,
}

impl Demo {
    /// Remembers what was emitted, for the account at the end.
    pub(crate) fn record(&mut self, emitted: &Emitted) {
        self.committed.extend(emitted.committed.iter().map(|(id, _)| id));
        self.rolled_back.extend(&emitted.rolled_back);
    }

    /// Keeps the running relay's peak memory, before it ends.
    pub(crate) fn record_memory(&mut self) {
        self.peak_rss_bytes = self.peak_rss_bytes.max(self.relay.usage().peak_rss_bytes);
    }

    /// The relay's command line and settings: those of a real one, plus a slot of its own.
    pub(crate) fn relay(stack: &Stack) -> harness::RelayBuilder {
        stack.relay().set("database-url", &stack.db.url_as("relay"))
    }
}
