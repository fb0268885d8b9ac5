//! Which messages of a channel the broker has confirmed.

use std::collections::VecDeque;

use super::{
    received::Reader,
    wire::{BASIC, METHOD},
};

/// Counts confirms; each may stand for one message or for all up to it.
#[derive(Default)]
pub(super) struct Confirms {
    /// All before this many are confirmed.
    prefix: u64,
    /// Whether the ones behind it are; as long as the last one that is.
    behind: VecDeque<bool>,
    count: u64,
}

impl Confirms {
    /// How many messages are confirmed.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes a frame from the broker.
    ///
    /// # Panics
    /// When it is anything but a confirm: a return, a nack, a closed channel.
    pub(super) fn take(&mut self, kind: u8, payload: &[u8]) {
        let mut reader = Reader(payload);
        let method = (kind == METHOD).then(|| reader.method());
        assert_eq!(method, Some((BASIC, 80)), "not a confirm: {}", String::from_utf8_lossy(reader.0));
        let (tag, is_multiple) = (reader.u64(), reader.u8() & 1 == 1);
        self.confirm(tag, is_multiple);
    }

    fn confirm(&mut self, tag: u64, is_multiple: bool) {
        let place = usize::try_from(tag - self.prefix).expect("a window fits into memory");
        if is_multiple {
            let known = self.behind.len().min(place);
            let already = self.behind.drain(..known).filter(|&confirmed| confirmed).count();
            self.count += (place - already) as u64;
            self.prefix = tag;
        } else {
            if self.behind.len() < place {
                self.behind.resize(place, false);
            }
            let confirmed = self.behind.get_mut(place - 1).expect("it was made so long");
            assert!(!std::mem::replace(confirmed, true), "delivery tag {tag} was confirmed twice");
            self.count += 1;
        }
        while self.behind.pop_front_if(|confirmed| *confirmed).is_some() {
            self.prefix += 1;
        }
    }
}
