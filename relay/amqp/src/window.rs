//! Which message has which delivery tag, and what the broker's answers say about it. Pure.
//!
//! The broker numbers the messages of a channel from 1 and confirms the numbers, one by one or "all up to here". A
//! message for which there is no queue it sends back and then confirms like any other. It sends the return before that
//! confirm, in one stream of bytes, so whoever reads both in order knows every verdict for certain:
//!
//! ```text
//! publish 1, 2, 3  ─▶
//!                  ◀─  return (message_id of 2)   2 is marked
//!                  ◀─  ack 3, multiple            1 confirmed, 2 returned, 3 confirmed
//! ```

use std::collections::VecDeque;

use uuid::Uuid;

use crate::{Answer, Outgoing, Verdict};

/// The messages of one channel that have no answer yet.
#[derive(Debug)]
pub(crate) struct Window<M> {
    /// In order of their tags. Tags that were answered out of turn are missing.
    unanswered: VecDeque<Published<M>>,
    next_tag: u64,
    /// Messages come back in order, so the next return is looked for from this tag on.
    return_expected_from: u64,
}

#[derive(Debug)]
struct Published<M> {
    tag: u64,
    message: M,
    returned: Option<Box<Returned>>,
}

/// Why a message came back.
#[derive(Debug)]
struct Returned {
    code: u16,
    text: String,
}

/// The broker answered something that was never published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stray {
    #[error("the broker answers delivery tag {0}, which was not used yet")]
    Tag(u64),
    #[error("the broker returns a message that is not in flight")]
    Return,
}

impl<M: Outgoing> Window<M> {
    /// The window of a channel on which nothing has been published yet.
    pub(crate) fn new() -> Self {
        Self { unanswered: VecDeque::new(), next_tag: 1, return_expected_from: 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.unanswered.len()
    }

    /// Notes the next message of the channel.
    pub(crate) fn published(&mut self, message: M) {
        self.unanswered.push_back(Published { tag: self.next_tag, message, returned: None });
        self.next_tag += 1;
    }

    /// The broker has sent a message back. Its confirm will follow.
    pub(crate) fn returned(&mut self, id: Option<Uuid>, code: u16, text: String) -> Result<(), Stray> {
        let id = id.ok_or(Stray::Return)?;
        let is_it = |published: &Published<M>| published.message.id() == id && published.returned.is_none();
        let from = self.unanswered.partition_point(|published| published.tag < self.return_expected_from);
        let place = (from..self.len())
            .chain(0..from)
            .find(|place| self.unanswered.get(*place).is_some_and(is_it))
            .ok_or(Stray::Return)?;
        let published = self.unanswered.get_mut(place).ok_or(Stray::Return)?;
        published.returned = Some(Box::new(Returned { code, text }));
        self.return_expected_from = published.tag + 1;
        Ok(())
    }

    /// The broker confirms or refuses (`verdict`) the message `tag`, and with `multiple` all that are older. Adds their
    /// answers to `answers`, the oldest first. One that was returned before has that as its verdict.
    pub(crate) fn answered(
        &mut self,
        tag: u64,
        multiple: bool,
        verdict: &Verdict,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Stray> {
        if tag >= self.next_tag {
            return Err(Stray::Tag(tag));
        }
        if multiple {
            // Tag 0 stands for "everything so far".
            let count = match tag {
                0 => self.len(),
                _ => self.unanswered.partition_point(|published| published.tag <= tag),
            };
            answers.extend(self.unanswered.drain(..count).map(|published| published.answer(verdict)));
        } else if let Ok(place) = self.unanswered.binary_search_by_key(&tag, |published| published.tag) {
            // Mostly the first: RabbitMQ answers a queue's messages in order. In the middle this moves the shorter side.
            answers.extend(self.unanswered.remove(place).map(|published| published.answer(verdict)));
        }
        Ok(())
    }

    /// The channel is gone, and tags start again. A message that came back has its verdict, confirmed or not; the others
    /// are unknown and are returned, in order.
    pub(crate) fn closed(&mut self, answers: &mut Vec<Answer>) -> Vec<M> {
        let mut unknown = Vec::new();
        for published in std::mem::replace(self, Self::new()).unanswered {
            if published.returned.is_some() {
                answers.push(published.answer(&Verdict::Confirmed));
            } else {
                unknown.push(published.message);
            }
        }
        unknown
    }
}

impl<M: Outgoing> Published<M> {
    fn answer(self, verdict: &Verdict) -> Answer {
        let verdict = match self.returned {
            Some(returned) => Verdict::Returned { code: returned.code, text: returned.text },
            None => verdict.clone(),
        };
        Answer { id: self.message.id(), verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Example, example};

    fn window(count: u128) -> Window<Example> {
        let mut window = Window::new();
        for id in 1..=count {
            window.published(example(id));
        }
        window
    }

    /// Ids with their verdicts, short: C(onfirmed), N(acked), R(eturned).
    fn seen(answers: &[Answer]) -> String {
        let one = |answer: &Answer| {
            let verdict = match answer.verdict {
                Verdict::Confirmed => 'C',
                Verdict::Nacked => 'N',
                Verdict::Returned { .. } => 'R',
                Verdict::Refused { .. } => 'X',
            };
            format!("{}{verdict}", answer.id.as_u128())
        };
        answers.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn send_back(window: &mut Window<Example>, id: u128) -> Result<(), Stray> {
        window.returned(Some(Uuid::from_u128(id)), 312, "NO_ROUTE".to_owned())
    }

    #[test]
    fn a_multiple_ack_answers_everything_up_to_its_tag() {
        let (mut window, mut answers) = (window(4), Vec::new());
        window.answered(2, false, &Verdict::Nacked, &mut answers).unwrap();
        window.answered(3, true, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!(seen(&answers), "2N 1C 3C");
        window.answered(0, true, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!((seen(&answers).as_str(), window.len()), ("2N 1C 3C 4C", 0));
    }

    #[test]
    fn a_returned_message_is_not_confirmed_by_the_ack_that_covers_it() {
        let (mut window, mut answers) = (window(4), Vec::new());
        send_back(&mut window, 2).unwrap();
        send_back(&mut window, 4).unwrap();
        window.answered(3, true, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!(seen(&answers), "1C 2R 3C");
        window.answered(4, false, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!(seen(&answers), "1C 2R 3C 4R");
    }

    #[test]
    fn a_return_out_of_turn_finds_its_message_all_the_same() {
        let (mut window, mut answers) = (window(3), Vec::new());
        send_back(&mut window, 3).unwrap();
        send_back(&mut window, 1).unwrap();
        window.answered(3, true, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!(seen(&answers), "1R 2C 3R");
    }

    #[test]
    fn an_answer_to_nothing_is_an_error_and_a_repeated_one_is_not() {
        let (mut window, mut answers) = (window(2), Vec::new());
        assert_eq!(window.answered(3, true, &Verdict::Confirmed, &mut answers), Err(Stray::Tag(3)));
        assert_eq!(send_back(&mut window, 9), Err(Stray::Return));
        assert_eq!(window.returned(None, 312, String::new()), Err(Stray::Return));
        for _ in 0..2 {
            assert_eq!(window.answered(1, false, &Verdict::Confirmed, &mut answers), Ok(()));
        }
        assert_eq!(seen(&answers), "1C");
    }

    #[test]
    fn when_the_channel_closes_only_what_came_back_is_known() {
        let (mut window, mut answers) = (window(3), Vec::new());
        send_back(&mut window, 2).unwrap();
        let unknown = window.closed(&mut answers);
        assert_eq!(unknown.iter().map(|message| message.id).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(seen(&answers), "2R");
        window.published(example(7));
        window.answered(1, false, &Verdict::Confirmed, &mut answers).unwrap();
        assert_eq!(seen(&answers), "2R 7C");
    }
}
