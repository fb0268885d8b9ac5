//! A topic that is checked, and topics in words.

use kafka_producer::{TopicSettings, TopicState};

use crate::format::{count, escaped};

/// Most topics that are named.
const NAMED: usize = 5;

/// A topic of the last day's events that exists.
pub(super) struct Topic {
    pub(super) state: TopicState,
    pub(super) settings: TopicSettings,
    /// Whether one of its events has no key.
    pub(super) keyless: bool,
}

/// Some topics in words: `2 topics: orders, invoices`.
pub(super) fn listed(topics: impl ExactSizeIterator<Item = String>) -> String {
    let number = topics.len();
    let more = if number > NAMED { ", …" } else { "" };
    let names: Vec<String> = topics.take(NAMED).map(|name| escaped(&name)).collect();
    format!("{}: {}{more}", count(i64::try_from(number).unwrap_or(i64::MAX), "topic"), names.join(", "))
}
