//! What has become of a record.

use uuid::Uuid;

/// What has become of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The record's [`id`](crate::Outgoing::id).
    pub id: Uuid,
    /// What has become of it.
    pub kind: ConfirmKind,
}

/// What has become of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmKind {
    /// All in-sync replicas have the record.
    Taken,
    /// The record was not written, and will not be as it is.
    Refused(Reason),
    /// The record was not written, because its topic does not exist.
    NoTopic(Reason),
    /// The record was not written, because of the topic's state, which may change.
    Unavailable(Reason),
    /// The record was not written, because an earlier one with its key and topic was not.
    Behind,
}

/// Why a record was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Kafka's error code; 0: the producer itself refused the record.
    pub code: i16,
    /// The code's name, and the broker's words.
    pub text: String,
}
