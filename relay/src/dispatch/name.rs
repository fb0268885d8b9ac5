//! Keys by name, as the table and a scan know them.

use uuid::Uuid;

/// The name of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// `aggregate_type` of its events.
    pub aggregate_type: Option<String>,
    /// `aggregate_id` of its events.
    pub aggregate_id: String,
}

/// An event in the table that holds its key: later events of the key wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Its key.
    pub key: KeyName,
    /// The event.
    pub id: Uuid,
}
