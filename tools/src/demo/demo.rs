//! What every step works with.

use harness::{Connection, Database, Postgres, Relay};
use uuid::Uuid;

use crate::{broker::Broker, load::Emitted, screen::Screen};

/// The running stack, and what has been emitted. Dropped from top to bottom.
pub(crate) struct Demo {
    /// Where everything is shown.
    pub(crate) screen: Screen,
    /// The relay that runs now.
    pub(crate) relay: Relay,
    /// The application's session, as role `shop`.
    pub(crate) shop: Connection,
    /// The broker, with the consumer.
    pub(crate) broker: Broker,
    /// The database, as superuser.
    pub(crate) db: Database,
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
}
