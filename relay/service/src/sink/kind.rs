//! What a kind of broker is called, and where an operator looks when it takes no messages.

/// A kind of broker: its names, its answers, and the hints for operators.
#[derive(Debug, PartialEq, Eq)]
pub struct BrokerKind {
    /// Its name in labels.
    pub label: &'static str,
    /// Its name in sentences.
    pub name: &'static str,
    /// Every outcome of an answer with every reason that it can have, in the words of [`Answers`](super::Answers).
    pub answers: &'static [(&'static str, &'static str)],
    /// Why the broker blocks publishing.
    pub blocks_over: &'static str,
    /// How the broker says that a destination takes nothing now.
    pub unavailable_by: &'static str,
    /// Where to look while no destination takes a message.
    pub unavailable_hint: &'static str,
    /// Where to look while the broker leaves messages unanswered.
    pub silent_hint: &'static str,
}

/// A broker for tests.
#[cfg(test)]
pub(crate) const ANY: BrokerKind = BrokerKind {
    label: "any",
    name: "AnyMQ",
    answers: &[("delivered", "taken"), ("rejected", "unknown")],
    blocks_over: "a full disk",
    unavailable_by: "no",
    unavailable_hint: "look at its queues",
    silent_hint: "look at its nodes",
};
