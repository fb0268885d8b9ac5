//! What is published next, and which message is to blame when the broker closes the channel. Pure.
//!
//! A message to a missing exchange, or a message that is too large, makes the broker close the channel. The broker says
//! what was wrong, but not with which message, and drops every message behind it. So each unconfirmed message that fits
//! what the broker said becomes a suspect. All are published again in order on a new channel, each suspect alone: if
//! that channel closes too, the suspect is to blame.
//!
//! ```text
//! many in flight ──channel closed──▶ all again, a suspect alone ──channel closed──▶ the one in flight is to blame
//!       ▲                                     │      ▲                                       │
//!       └──────── no suspects left ───────────┘      └───────────── the rest ────────────────┘
//! ```
//!
//! A message that resembles an earlier culprit is published alone from the start ([`Doubts`]).

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use uuid::Uuid;

use super::{
    confirm::{Confirm, ConfirmKind},
    message::{Message, Outgoing},
    window::{Stray, Window},
};
use crate::protocol::method::{ACCESS_REFUSED, NOT_FOUND};

/// Messages from the moment they are handed over until they are confirmed.
#[derive(Debug)]
pub(crate) struct Deliveries<M> {
    /// Messages that are not published yet, or are to be published again.
    waiting: VecDeque<Waiting<M>>,
    /// Messages that are published on the current channel.
    window: Window<M>,
    /// Most messages in flight.
    limit: usize,
    /// The message in flight, if no other may be in flight beside it.
    alone: Option<Likeness>,
    doubts: Doubts,
}

#[derive(Debug)]
struct Waiting<M> {
    message: M,
    /// Whether a channel may have been closed over the message.
    is_suspect: bool,
}

/// What a closed channel says about the messages.
#[derive(Debug)]
pub(crate) enum Blame<M> {
    /// No message was in flight.
    Nobody,
    /// One of this many messages.
    OneOf(usize),
    /// This message, for certain. The caller makes its confirm.
    Message(M),
}

impl<M: Outgoing> Deliveries<M> {
    /// `limit`: most messages in flight, at least 1.
    pub(crate) fn new(limit: usize) -> Self {
        let doubts = Doubts::default();
        Self { waiting: VecDeque::new(), window: Window::new(), limit: limit.max(1), alone: None, doubts }
    }

    /// How many messages are unconfirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.waiting.len() + self.window.len()
    }

    /// Takes messages over, to be published after all earlier ones.
    pub(crate) fn accept(&mut self, batch: Vec<M>) {
        self.waiting.extend(batch.into_iter().map(|message| Waiting { message, is_suspect: false }));
    }

    /// The message to publish now. The caller reports it as [`published`](Self::published) or
    /// [`withdrawn`](Self::withdrawn).
    pub(crate) fn next(&mut self) -> Option<M> {
        let front = self.waiting.front()?;
        let leaves_alone = front.is_suspect || self.doubts.cover(&front.message);
        let limit = if leaves_alone || self.alone.is_some() { 1 } else { self.limit };
        if self.window.len() >= limit {
            return None;
        }
        let message = self.waiting.pop_front()?.message;
        self.alone = if leaves_alone { Likeness::of(&message) } else { None };
        Some(message)
    }

    /// The message from [`next`](Self::next) was published.
    pub(crate) fn published(&mut self, message: M) {
        self.window.published(message);
    }

    /// The message from [`next`](Self::next) cannot be published: the caller makes its confirm.
    pub(crate) fn withdrawn(&mut self) {
        self.alone = None;
    }

    /// The broker has returned a message. See [`Window::returned`].
    pub(crate) fn returned(&mut self, id: Option<Uuid>, code: u16, text: String) -> Result<(), Stray> {
        self.window.returned(id, code, text)
    }

    /// The broker has acked or nacked messages. See [`Window::confirmed`].
    pub(crate) fn confirmed(
        &mut self,
        tag: u64,
        multiple: bool,
        kind: &ConfirmKind,
        confirms: &mut Vec<Confirm>,
    ) -> Result<(), Stray> {
        self.window.confirmed(tag, multiple, kind, confirms)?;
        if self.window.len() == 0
            && let Some(taken) = self.alone.take()
        {
            self.doubts.lift(&taken);
        }
        Ok(())
    }

    /// The broker has closed the channel with this reply code. `can_be` says whether its words fit a message.
    pub(crate) fn channel_closed(
        &mut self,
        code: u16,
        can_be: impl Fn(&M) -> bool,
        confirms: &mut Vec<Confirm>,
    ) -> Blame<M> {
        self.alone = None;
        let mut unknown = self.window.closed(confirms);
        if unknown.len() <= 1 {
            let Some(message) = unknown.pop() else { return Blame::Nobody };
            self.doubts.raise(&message, code);
            return Blame::Message(message);
        }
        let suspects = unknown.iter().filter(|message| can_be(message)).count();
        let all = suspects == 0; // one of them is to blame, although the broker's words fit none
        let count = if all { unknown.len() } else { suspects };
        for message in unknown.into_iter().rev() {
            let is_suspect = all || can_be(&message);
            self.waiting.push_front(Waiting { message, is_suspect });
        }
        Blame::OneOf(count)
    }
}

/// Most names that are remembered: users make up as many names as they like.
const NAMES_MAX: usize = 1_000;

/// Features of messages over which the broker has closed a channel, and which it has not acked since.
///
/// A message with such a feature leaves alone, so that it costs the others neither a second delivery nor a search for
/// the culprit. It does leave, because an operator may have made the exchange or raised the limit.
#[derive(Debug, Default)]
struct Doubts {
    /// Exchanges, and routing keys of the configured exchange.
    names: HashSet<Box<[u8]>>,
    /// Size of the smallest body that was too large, in bytes.
    too_large: Option<usize>,
}

/// The features of a message over which a broker may close a channel.
#[derive(Debug)]
struct Likeness {
    name: Box<[u8]>,
    bytes: usize,
}

impl Likeness {
    fn of(outgoing: &impl Outgoing) -> Option<Self> {
        let message = outgoing.message().ok()?;
        Some(Self { name: name(&message).into(), bytes: message.body.len() })
    }
}

fn name<'a>(message: &Message<'a>) -> &'a [u8] {
    message.exchange.unwrap_or(message.routing_key)
}

impl Doubts {
    /// Whether the message has such a feature.
    fn cover(&self, outgoing: &impl Outgoing) -> bool {
        if self.names.is_empty() && self.too_large.is_none() {
            return false; // nearly always
        }
        outgoing.message().is_ok_and(|message| {
            self.names.contains(name(&message)) || self.too_large.is_some_and(|bytes| message.body.len() >= bytes)
        })
    }

    /// The broker has closed a channel over this message.
    fn raise(&mut self, outgoing: &impl Outgoing, code: u16) {
        let Some(Likeness { name, bytes }) = Likeness::of(outgoing) else { return };
        match code {
            NOT_FOUND | ACCESS_REFUSED => {
                if self.names.len() >= NAMES_MAX {
                    self.names.clear();
                }
                self.names.insert(name);
            }
            _ => self.too_large = Some(self.too_large.map_or(bytes, |smallest| smallest.min(bytes))),
        }
    }

    /// The broker has taken a message with these features.
    fn lift(&mut self, taken: &Likeness) {
        self.names.remove(&taken.name);
        self.too_large = self.too_large.filter(|bytes| taken.bytes < *bytes);
    }
}
