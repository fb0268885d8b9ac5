//! The parts that a session's state is made of. Each keeps one invariant, and knows nothing of the others.

mod deferred;
mod not_yet_visible;
mod pace;
mod progress;
mod resync;
mod row_by_row;
mod settling;
mod tally;

pub(crate) use self::{
    deferred::Deferred,
    not_yet_visible::{Awaited, Origin},
    pace::Pace,
    progress::{Progress, Ticket},
    resync::{Fate, Resync, Stream},
    row_by_row::Care,
    settling::{Batching, Settled, Settling},
    tally::Tally,
};
