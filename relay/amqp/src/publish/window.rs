//! Which message has which delivery tag, and how the broker confirms it. Pure.
//!
//! The broker numbers the messages of a channel from 1 and acks the numbers, one by one or "all up to here". A message
//! for which there is no queue is returned and then acked like any other. The return precedes its ack in one stream of
//! bytes, so a client that reads both in order knows every confirm for certain:
//!
//! ```text
//! publish 1, 2, 3  ─▶
//!                  ◀─  return (message_id of 2)   2 is marked
//!                  ◀─  ack 3, multiple            1 acked, 2 returned, 3 acked
//! ```

use std::collections::VecDeque;

use uuid::Uuid;

use super::{
    confirm::{Confirm, ConfirmKind},
    message::Outgoing,
};

/// The unconfirmed messages of one channel.
#[derive(Debug)]
pub(crate) struct Window<M> {
    /// Messages in the order of their tags. Tags that were confirmed out of turn are missing.
    unconfirmed: VecDeque<Published<M>>,
    next_tag: u64,
    /// The tag from which on the next return is searched: messages are returned in order.
    return_expected_from: u64,
}

#[derive(Debug)]
struct Published<M> {
    tag: u64,
    message: M,
    returned: Option<Box<Returned>>,
}

/// Why a message was returned.
#[derive(Debug)]
struct Returned {
    code: u16,
    text: String,
}

/// The broker confirmed a message that was never published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stray {
    #[error("the broker confirms delivery tag {0}, which was not used yet")]
    Tag(u64),
    #[error("the broker returns a message that is not in flight")]
    Return,
}

impl<M: Outgoing> Window<M> {
    /// The window of a channel on which nothing has been published yet.
    pub(crate) fn new() -> Self {
        Self { unconfirmed: VecDeque::new(), next_tag: 1, return_expected_from: 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.unconfirmed.len()
    }

    /// The next message of the channel was published.
    pub(crate) fn published(&mut self, message: M) {
        self.unconfirmed.push_back(Published { tag: self.next_tag, message, returned: None });
        self.next_tag += 1;
    }

    /// The broker has returned a message. Its ack will follow.
    pub(crate) fn returned(&mut self, id: Option<Uuid>, code: u16, text: String) -> Result<(), Stray> {
        let id = id.ok_or(Stray::Return)?;
        let is_it = |published: &Published<M>| published.message.id() == id && published.returned.is_none();
        let from = self.unconfirmed.partition_point(|published| published.tag < self.return_expected_from);
        let place = (from..self.len())
            .chain(0..from)
            .find(|place| self.unconfirmed.get(*place).is_some_and(is_it))
            .ok_or(Stray::Return)?;
        let published = self.unconfirmed.get_mut(place).ok_or(Stray::Return)?;
        published.returned = Some(Box::new(Returned { code, text }));
        self.return_expected_from = published.tag + 1;
        Ok(())
    }

    /// The broker acks or nacks (`kind`) the message `tag`, and with `multiple` all older ones. Adds their confirms to
    /// `confirms`, the oldest first. A message that was returned before counts as returned.
    pub(crate) fn confirmed(
        &mut self,
        tag: u64,
        multiple: bool,
        kind: &ConfirmKind,
        confirms: &mut Vec<Confirm>,
    ) -> Result<(), Stray> {
        if tag >= self.next_tag {
            return Err(Stray::Tag(tag));
        }
        if multiple {
            // Tag 0 stands for "everything so far".
            let count = match tag {
                0 => self.len(),
                _ => self.unconfirmed.partition_point(|published| published.tag <= tag),
            };
            confirms.extend(self.unconfirmed.drain(..count).map(|published| published.confirm(kind)));
        } else if let Ok(place) = self.unconfirmed.binary_search_by_key(&tag, |published| published.tag) {
            // Mostly the first: RabbitMQ confirms a queue's messages in order. In the middle this moves the shorter
            // side.
            confirms.extend(self.unconfirmed.remove(place).map(|published| published.confirm(kind)));
        }
        Ok(())
    }

    /// The channel is gone, and tags start again. A message that the broker returned is confirmed by that; the fate of
    /// the others is unknown, and they are handed back in order.
    pub(crate) fn closed(&mut self, confirms: &mut Vec<Confirm>) -> Vec<M> {
        let mut unknown = Vec::new();
        for published in std::mem::replace(self, Self::new()).unconfirmed {
            if published.returned.is_some() {
                confirms.push(published.confirm(&ConfirmKind::Acked));
            } else {
                unknown.push(published.message);
            }
        }
        unknown
    }
}

impl<M: Outgoing> Published<M> {
    fn confirm(self, kind: &ConfirmKind) -> Confirm {
        let kind = match self.returned {
            Some(returned) => ConfirmKind::Returned { code: returned.code, text: returned.text },
            None => kind.clone(),
        };
        Confirm { id: self.message.id(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::message::{Example, example};

    fn window(count: u128) -> Window<Example> {
        let mut window = Window::new();
        for id in 1..=count {
            window.published(example(id));
        }
        window
    }

    /// Ids with their confirms, in short: A(cked), N(acked), R(eturned), C(losed).
    fn seen(confirms: &[Confirm]) -> String {
        let one = |confirm: &Confirm| {
            let kind = match confirm.kind {
                ConfirmKind::Acked => 'A',
                ConfirmKind::Nacked => 'N',
                ConfirmKind::Returned { .. } => 'R',
                ConfirmKind::Closed { .. } => 'C',
            };
            format!("{}{kind}", confirm.id.as_u128())
        };
        confirms.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn send_back(window: &mut Window<Example>, id: u128) -> Result<(), Stray> {
        window.returned(Some(Uuid::from_u128(id)), 312, "NO_ROUTE".to_owned())
    }

    #[test]
    fn a_multiple_ack_confirms_everything_up_to_its_tag() {
        let (mut window, mut confirms) = (window(4), Vec::new());
        window.confirmed(2, false, &ConfirmKind::Nacked, &mut confirms).unwrap();
        window.confirmed(3, true, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!(seen(&confirms), "2N 1A 3A");
        window.confirmed(0, true, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!((seen(&confirms).as_str(), window.len()), ("2N 1A 3A 4A", 0));
    }

    #[test]
    fn a_returned_message_is_not_acked_by_the_ack_that_covers_it() {
        let (mut window, mut confirms) = (window(4), Vec::new());
        send_back(&mut window, 2).unwrap();
        send_back(&mut window, 4).unwrap();
        window.confirmed(3, true, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!(seen(&confirms), "1A 2R 3A");
        window.confirmed(4, false, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!(seen(&confirms), "1A 2R 3A 4R");
    }

    #[test]
    fn a_return_out_of_turn_finds_its_message_all_the_same() {
        let (mut window, mut confirms) = (window(3), Vec::new());
        send_back(&mut window, 3).unwrap();
        send_back(&mut window, 1).unwrap();
        window.confirmed(3, true, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!(seen(&confirms), "1R 2A 3R");
    }

    #[test]
    fn a_confirm_of_nothing_is_an_error_and_a_repeated_one_is_not() {
        let (mut window, mut confirms) = (window(2), Vec::new());
        assert_eq!(window.confirmed(3, true, &ConfirmKind::Acked, &mut confirms), Err(Stray::Tag(3)));
        assert_eq!(send_back(&mut window, 9), Err(Stray::Return));
        assert_eq!(window.returned(None, 312, String::new()), Err(Stray::Return));
        for _ in 0..2 {
            assert_eq!(window.confirmed(1, false, &ConfirmKind::Acked, &mut confirms), Ok(()));
        }
        assert_eq!(seen(&confirms), "1A");
    }

    #[test]
    fn when_the_channel_closes_only_what_came_back_is_known() {
        let (mut window, mut confirms) = (window(3), Vec::new());
        send_back(&mut window, 2).unwrap();
        let unknown = window.closed(&mut confirms);
        assert_eq!(unknown.iter().map(|message| message.id).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(seen(&confirms), "2R");
        window.published(example(7));
        window.confirmed(1, false, &ConfirmKind::Acked, &mut confirms).unwrap();
        assert_eq!(seen(&confirms), "2R 7A");
    }
}
