//! Keys by name, as the table and a scan know them.

use uuid::Uuid;

use crate::event::{Event, Text};

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

impl KeyName {
    /// Whether the event has this key.
    pub fn is_of(&self, event: &Event) -> bool {
        event.aggregate_id.as_ref().is_some_and(|id| id.as_str() == self.aggregate_id)
            && event.aggregate_type.as_ref().map(Text::as_str) == self.aggregate_type.as_deref()
    }
}
