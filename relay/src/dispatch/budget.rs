//! How much may be in memory at a time.

/// Bounds on what is held in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events.
    pub max_events: usize,
    /// Bytes of events, bodies included.
    pub max_bytes: usize,
}

impl Limits {
    /// What one ordering key may hold in memory behind the event that is leaving: a quarter of all, so that one hot key
    /// leaves room for the others.
    pub fn key_share(&self) -> Self {
        Self { max_events: (self.max_events / 4).max(1), max_bytes: self.max_bytes / 4 }
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    events: usize,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, events: 0, bytes: 0 }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn has_room(&self) -> bool {
        let (events, bytes) = self.room();
        events > 0 && bytes > 0
    }

    pub(super) fn room(&self) -> (usize, usize) {
        (self.limits.max_events.saturating_sub(self.events), self.limits.max_bytes.saturating_sub(self.bytes))
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.events += 1;
        self.bytes += bytes;
    }

    pub(super) fn give_back_event(&mut self) {
        self.events -= 1;
    }

    pub(super) fn give_back_bytes(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}
