//! What the broker has closed a channel over, and has not taken since. Pure.
//!
//! What is like it leaves alone, so that it costs the others neither a second delivery nor a search for the one at fault.
//! It leaves all the same: an operator may have made the exchange, or raised the limit.

use std::collections::HashSet;

use super::method::{ACCESS_REFUSED, NOT_FOUND};
use crate::event::Event;

/// Most names that are remembered. The names are the users' own, so there is no end to them.
const NAMES_MAX: usize = 1_000;

/// What is in doubt.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Exchanges, and topics of the relay's own exchange.
    names: HashSet<Box<str>>,
    /// Size of the smallest body that was too large, in bytes.
    too_large: Option<usize>,
}

impl Doubts {
    /// Whether the event is like one of those.
    pub(super) fn cover(&self, event: &Event) -> bool {
        !self.names.is_empty() && self.names.contains(name(event))
            || self.too_large.is_some_and(|bytes| size(event) >= bytes)
    }

    /// The broker has closed a channel over this event.
    pub(super) fn raise(&mut self, event: &Event, code: u16) {
        match code {
            NOT_FOUND | ACCESS_REFUSED => {
                if self.names.len() >= NAMES_MAX {
                    self.names.clear();
                }
                self.names.insert(name(event).into());
            }
            _ => self.too_large = Some(self.too_large.map_or(size(event), |bytes| bytes.min(size(event)))),
        }
    }

    /// The broker has taken this event.
    pub(super) fn settle(&mut self, event: &Event) {
        self.names.remove(name(event));
        self.too_large = self.too_large.filter(|bytes| size(event) < *bytes);
    }
}

fn name(event: &Event) -> &str {
    event.exchange.as_ref().unwrap_or(&event.topic).as_str()
}

fn size(event: &Event) -> usize {
    event.body.as_ref().map_or(0, |body| body.len())
}
