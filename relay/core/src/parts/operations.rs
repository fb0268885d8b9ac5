//! Which operation on the table may come next. One runs at a time, and each kind leaves room for the others.

use std::time::{Duration, Instant};

use super::RowByRow;

/// Least time between two looks at which transactions are visible, apart from those that passes take.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(100);
/// Passes for spilled keys and replays take at most one part of the time in this many, since a pass pauses the stream.
const REFILL_SHARE: u32 = 10;

/// The table operation that runs, and what decides the next one.
#[derive(Clone, Debug)]
pub(crate) struct TableOperations {
    running: Option<Running>,
    /// Whether the last operation wrote verdicts.
    settled_last: bool,
    /// Whether the last scan was for events that are due.
    scanned_due_last: bool,
    /// No scan begins before this time, since the last one failed.
    paused_until: Option<Instant>,
    /// When the visible transactions were last looked up.
    looked_up_at: Instant,
    passes_by_row: RowByRow,
    due_by_row: RowByRow,
    /// When the latest page of a pass was asked for.
    pass_started: Instant,
    /// Spilled keys and replays start no pass before this time.
    next_refill: Instant,
    /// When the sequence, the publication and the table are next checked.
    next_check: Instant,
}

crate::marked!(TableOperations {
    running,
    settled_last,
    scanned_due_last,
    paused_until,
    looked_up_at,
    passes_by_row,
    due_by_row,
    pass_started,
    next_refill,
    next_check,
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// A scan that may end recovery. The stream is paused meanwhile.
    WholePass,
    Other,
}

crate::marked_by_name!(Running);

impl TableOperations {
    pub(crate) fn new(row_by_row: bool, next_check: Instant, now: Instant) -> Self {
        Self {
            running: None,
            settled_last: false,
            scanned_due_last: true, // so that the pass comes first
            paused_until: None,
            looked_up_at: now,
            passes_by_row: RowByRow::new(row_by_row),
            due_by_row: RowByRow::new(row_by_row),
            pass_started: now,
            next_refill: now,
            next_check,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether the running operation is a scan that may end recovery. The stream is paused meanwhile.
    pub(crate) fn runs_whole_pass(&self) -> bool {
        self.running == Some(Running::WholePass)
    }

    pub(crate) fn starts(&mut self, is_whole_pass: bool) {
        debug_assert!(self.running.is_none(), "one operation at a time");
        self.running = Some(if is_whole_pass { Running::WholePass } else { Running::Other });
    }

    pub(crate) fn has_finished(&mut self) {
        debug_assert!(self.running.is_some(), "no answer without an operation");
        self.running = None;
    }

    /// Whether the last operation wrote verdicts. Resets that, since the next operation is being chosen.
    pub(crate) fn takes_settled_last(&mut self) -> bool {
        std::mem::take(&mut self.settled_last)
    }

    pub(crate) fn settles(&mut self) {
        self.settled_last = true;
    }

    /// A scan has failed: the next one waits.
    pub(crate) fn pause_until(&mut self, until: Instant) {
        self.paused_until = Some(until);
    }

    /// Whether scans wait because one has failed.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// When scans may begin again; `None`: none has failed.
    pub(crate) fn pause_ends(&self) -> Option<Instant> {
        self.paused_until
    }

    /// The visible transactions are being looked up.
    pub(crate) fn looks_up(&mut self, now: Instant) {
        self.looked_up_at = now;
    }

    /// When the visible transactions may be looked up next.
    pub(crate) fn next_look_up(&self) -> Instant {
        self.looked_up_at + LOOK_UP_PAUSE
    }

    /// Whether the last scan was for events that are due.
    pub(crate) fn scanned_due_last(&self) -> bool {
        self.scanned_due_last
    }

    /// A scan for events that are due begins. Returns whether it goes row by row. `is_moving`: as in
    /// [`RowByRow::goes_on`].
    pub(crate) fn scans_due(&mut self, is_moving: bool) -> bool {
        self.scanned_due_last = true;
        self.due_by_row.goes_on(is_moving)
    }

    /// A scan for a page of pending events begins. Returns whether it goes row by row. `is_moving`: as in
    /// [`RowByRow::goes_on`].
    pub(crate) fn scans_page(&mut self, is_moving: bool, now: Instant) -> bool {
        (self.scanned_due_last, self.pass_started) = (false, now);
        self.passes_by_row.goes_on(is_moving)
    }

    /// A scan has read all events that are due.
    pub(crate) fn has_read_due(&mut self) {
        self.due_by_row.has_read_all();
    }

    /// A pass has reached the end of the table.
    pub(crate) fn has_read_pending(&mut self) {
        self.passes_by_row.has_read_all();
    }

    /// A pass, or its first page, has ended: the next one for spilled keys or a replay waits, so that the stream gets
    /// its share of the time.
    pub(crate) fn pass_ends(&mut self, now: Instant) {
        self.next_refill = now + REFILL_SHARE * now.duration_since(self.pass_started);
    }

    /// When the next pass for spilled keys or a replay may begin.
    pub(crate) fn next_refill(&self, now: Instant) -> Instant {
        now.max(self.next_refill)
    }

    /// When the sequence, the publication and the table are next checked.
    pub(crate) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Plans the next check.
    pub(crate) fn check_at(&mut self, at: Instant) {
        self.next_check = at;
    }
}
