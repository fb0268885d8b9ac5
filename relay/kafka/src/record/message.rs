//! Records that can be published.

use std::sync::Arc;

use uuid::Uuid;

use super::fetched::Fetched;
use super::headers::Headers;

/// A type of yours that can be published: it describes itself as a record, and is written straight into the output.
pub trait Outgoing: Send + 'static {
    /// What is kept of a record that is [read back](crate::Producer::read_back).
    type Mark: Send + 'static;

    /// The id that a [`Confirm`](crate::Confirm) carries: no two records in flight may share it.
    fn id(&self) -> Uuid;

    /// The topic.
    fn topic(&self) -> &str;

    /// The key, by which the partition is chosen; `None`: any partition will do.
    fn key(&self) -> Option<&[u8]>;

    /// The value; `None`: Kafka's null, which deletes a key of a compacted topic.
    ///
    /// # Errors
    ///
    /// Why the record cannot be published. It is then confirmed as [`Refused`](crate::ConfirmKind::Refused) with this
    /// text, and the broker never sees it.
    fn value(&self) -> Result<Option<&[u8]>, &str>;

    /// Writes the headers. By default there are none.
    ///
    /// # Errors
    ///
    /// As for [`value`](Self::value).
    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
        let _ = headers;
        Ok(())
    }

    /// What is kept of a record that is [read back](crate::Producer::read_back); `None`: nothing, as it is of another
    /// type. By default nothing is.
    fn mark(record: &Fetched) -> Option<Self::Mark> {
        let _ = record;
        None
    }
}

/// A caller who keeps records until they are confirmed shares them.
impl<M: Outgoing + Sync> Outgoing for Arc<M> {
    type Mark = M::Mark;

    fn id(&self) -> Uuid {
        M::id(self)
    }

    fn topic(&self) -> &str {
        M::topic(self)
    }

    fn key(&self) -> Option<&[u8]> {
        M::key(self)
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        M::value(self)
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
        M::put_headers(self, headers)
    }

    fn mark(record: &Fetched) -> Option<M::Mark> {
        M::mark(record)
    }
}
