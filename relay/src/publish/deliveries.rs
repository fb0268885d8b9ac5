//! What is published next, and which event is to blame when the broker closes the channel. Pure.
//!
//! A message to a missing exchange, or one that is too large, makes the broker close the channel. It does not say which
//! it was, and drops all that were behind it. So the unanswered ones become suspects and are published again in order,
//! one at a time, on a new channel: should that close too, there is only one it can have been.
//!
//! ```text
//! many in flight ──channel closed──▶ suspects, one in flight ──channel closed──▶ the one in flight is to blame
//!       ▲                                     │     ▲                                       │
//!       └──────── no suspects left ───────────┘     └───────────── the rest ────────────────┘
//! ```

use std::{collections::VecDeque, sync::Arc};

use uuid::Uuid;

use super::{
    Answer, Verdict,
    window::{Stray, Window},
};
use crate::event::Event;

/// Events from the moment they are handed over until they have an answer.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// Not published yet, or to be published again.
    waiting: VecDeque<Arc<Event>>,
    /// Published on the channel as it is now.
    window: Window,
    /// Most messages in flight.
    limit: usize,
    /// How many of the oldest events have no answer because a channel was closed over them.
    suspects: usize,
}

/// What a closed channel says about the events.
#[derive(Debug)]
pub(super) enum Blame {
    /// Nothing was in flight.
    Nobody,
    /// One of so many.
    OneOf(usize),
    /// This one, for certain. It is for the caller to answer it.
    Event(Arc<Event>),
}

impl Deliveries {
    /// `limit`: most messages in flight, at least 1.
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::new(), window: Window::new(), limit: limit.max(1), suspects: 0 }
    }

    /// Events without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.waiting.len() + self.window.len()
    }

    /// Takes events over, to be published after all that were taken before.
    pub(super) fn accept(&mut self, batch: Vec<Arc<Event>>) {
        self.waiting.extend(batch);
    }

    /// The event to publish now. The caller says that it was [`published`](Self::published), or answers it itself.
    pub(super) fn next(&mut self) -> Option<Arc<Event>> {
        let limit = if self.suspects > 0 { 1 } else { self.limit };
        if self.window.len() < limit { self.waiting.pop_front() } else { None }
    }

    /// The event from [`next`](Self::next) was published.
    pub(super) fn published(&mut self, event: Arc<Event>) {
        self.window.published(event);
    }

    /// A message came back. See [`Window::returned`].
    pub(super) fn returned(&mut self, id: Option<Uuid>, code: u16, text: String) -> Result<(), Stray> {
        self.window.returned(id, code, text)
    }

    /// An ack or a nack. See [`Window::answered`].
    pub(super) fn answered(
        &mut self,
        tag: u64,
        multiple: bool,
        verdict: &Verdict,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Stray> {
        let before = self.window.len();
        self.window.answered(tag, multiple, verdict, answers)?;
        // While there are suspects, nothing else is in flight.
        self.suspects = self.suspects.saturating_sub(before - self.window.len());
        Ok(())
    }

    /// The broker has closed the channel.
    pub(super) fn channel_closed(&mut self, answers: &mut Vec<Answer>) -> Blame {
        let in_flight = self.window.len();
        let mut unknown = self.window.closed(answers);
        self.suspects = self.suspects.saturating_sub(in_flight);
        match unknown.len() {
            0 | 1 => unknown.pop().map_or(Blame::Nobody, Blame::Event),
            count => {
                self.suspects = count;
                unknown.into_iter().rev().for_each(|event| self.waiting.push_front(event));
                Blame::OneOf(count)
            }
        }
    }
}
