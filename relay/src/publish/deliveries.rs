//! What is published next, and which event is to blame when the broker closes the channel. Pure.
//!
//! A message to a missing exchange, or one that is too large, makes the broker close the channel. It says what was wrong, but
//! not with which message, and drops all that were behind it. So those unanswered that it can have been become suspects. All
//! are published again in order on a new channel, each suspect alone: should that close too, there is only one it can have been.
//!
//! ```text
//! many in flight ──channel closed──▶ all again, a suspect alone ──channel closed──▶ the one in flight is to blame
//!       ▲                                     │      ▲                                       │
//!       └──────── no suspects left ───────────┘      └───────────── the rest ────────────────┘
//! ```
//!
//! What is like an event that was to blame leaves alone from the start ([`Doubts`]).

use std::{collections::VecDeque, sync::Arc};

use uuid::Uuid;

use super::{
    Answer, Verdict,
    doubts::Doubts,
    window::{Stray, Window},
};
use crate::event::Event;

/// Events from the moment they are handed over until they have an answer.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// Not published yet, or to be published again.
    waiting: VecDeque<Waiting>,
    /// Published on the channel as it is now.
    window: Window,
    /// Most messages in flight.
    limit: usize,
    /// The event that left last, if nothing else may be in flight beside it.
    alone: Option<Arc<Event>>,
    doubts: Doubts,
}

#[derive(Debug)]
struct Waiting {
    event: Arc<Event>,
    /// A channel may have been closed over it.
    is_suspect: bool,
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
        let doubts = Doubts::default();
        Self { waiting: VecDeque::new(), window: Window::new(), limit: limit.max(1), alone: None, doubts }
    }

    /// Events without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.waiting.len() + self.window.len()
    }

    /// Takes events over, to be published after all that were taken before.
    pub(super) fn accept(&mut self, batch: Vec<Arc<Event>>) {
        self.waiting.extend(batch.into_iter().map(|event| Waiting { event, is_suspect: false }));
    }

    /// The event to publish now. The caller says that it was [`published`](Self::published), or answers it itself.
    pub(super) fn next(&mut self) -> Option<Arc<Event>> {
        let front = self.waiting.front()?;
        let leaves_alone = front.is_suspect || self.doubts.cover(&front.event);
        let limit = if leaves_alone || self.alone.is_some() { 1 } else { self.limit };
        if self.window.len() >= limit {
            return None;
        }
        let event = self.waiting.pop_front()?.event;
        self.alone = leaves_alone.then(|| Arc::clone(&event));
        Some(event)
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
        self.window.answered(tag, multiple, verdict, answers)?;
        if self.window.len() == 0
            && let Some(event) = self.alone.take()
        {
            self.doubts.settle(&event);
        }
        Ok(())
    }

    /// The broker has closed the channel, with this reply code. `can_be`: over this event, by all that it says.
    pub(super) fn channel_closed(
        &mut self,
        code: u16,
        can_be: impl Fn(&Event) -> bool,
        answers: &mut Vec<Answer>,
    ) -> Blame {
        self.alone = None;
        let mut unknown = self.window.closed(answers);
        if unknown.len() <= 1 {
            let Some(event) = unknown.pop() else { return Blame::Nobody };
            self.doubts.raise(&event, code);
            return Blame::Event(event);
        }
        let suspects = unknown.iter().filter(|event| can_be(event)).count();
        let all = suspects == 0; // what the broker says fits none of them: it is one of them all the same
        let count = if all { unknown.len() } else { suspects };
        for event in unknown.into_iter().rev() {
            let is_suspect = all || can_be(&event);
            self.waiting.push_front(Waiting { event, is_suspect });
        }
        Blame::OneOf(count)
    }
}
