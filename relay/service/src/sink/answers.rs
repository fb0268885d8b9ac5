//! A broker's answers, counted by outcome and reason.

use outbox_core::Outcome;
use uuid::Uuid;

use super::BrokerKind;

/// A broker's answer to one message.
pub struct Answer {
    /// The event's id.
    pub id: Uuid,
    /// What has become of the message.
    pub outcome: Outcome,
    /// The reason, one of a few words that the sink has for its broker's answers.
    pub reason: &'static str,
}

/// Counts of answers by outcome and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers(Vec<([&'static str; 2], u64)>);

impl Answers {
    /// All answers that the broker can give, each with the count 0.
    pub(crate) fn new(kind: &BrokerKind) -> Self {
        Self(kind.answers.iter().map(|(outcome, reason)| ([*outcome, *reason], 0)).collect())
    }

    /// Outcome, reason and count of all answers that the broker can give.
    pub fn table(&self) -> &[([&'static str; 2], u64)] {
        &self.0
    }

    /// Counts answers, and returns their outcomes.
    pub(crate) fn count(&mut self, answers: Vec<Answer>) -> Vec<(Uuid, Outcome)> {
        let mut counted = |Answer { id, outcome, reason }| {
            self.add_to([word(&outcome), reason], 1);
            (id, outcome)
        };
        answers.into_iter().map(&mut counted).collect()
    }

    /// Number of all answers.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Adds the counts of earlier answers.
    pub(crate) fn add(&mut self, past: &Self) {
        for (answer, count) in &past.0 {
            self.add_to(*answer, *count);
        }
    }

    fn add_to(&mut self, answer: [&'static str; 2], count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, counted)) => *counted += count,
            None => self.0.push((answer, count)),
        }
    }
}

/// The outcome's name in labels.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Rejected(_) => "rejected",
        Outcome::Retry(_) => "retry",
        Outcome::Unavailable(_) | Outcome::Unread { is_behind: false, .. } => "unavailable",
        Outcome::Found => "found",
        Outcome::Behind | Outcome::Unread { is_behind: true, .. } => "behind",
    }
}

#[cfg(test)]
impl Answers {
    /// That many messages delivered.
    pub(crate) fn delivered(count: u64) -> Self {
        Self(vec![(["delivered", "taken"], count)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::ANY;

    #[test]
    fn every_answer_that_there_can_be_is_counted_from_0_and_goes_on_from_session_to_session() {
        let mut answers = Answers::new(&ANY);
        assert_eq!(answers.table(), [(["delivered", "taken"], 0), (["rejected", "unknown"], 0)]);
        let answer = |outcome, reason| Answer { id: Uuid::nil(), outcome, reason };
        let rejected = Outcome::Rejected("404".to_owned());
        let outcomes = answers.count(vec![answer(Outcome::Delivered, "taken"), answer(rejected.clone(), "unknown")]);
        assert_eq!(outcomes, [(Uuid::nil(), Outcome::Delivered), (Uuid::nil(), rejected)]);
        answers.add(&Answers::delivered(5));
        assert_eq!(answers.table(), [(["delivered", "taken"], 6), (["rejected", "unknown"], 1)]);
        assert_eq!(answers.total(), 7);
    }
}
