//! The parts that a session's state is made of. Each keeps one invariant, and none knows the machine.

mod congestion;
mod deferred;
mod ending;
mod link;
mod not_yet_visible;
mod operations;
mod pace;
mod progress;
mod publication;
mod resync;
mod row_by_row;
mod settling;
mod slot_watch;
mod status;
mod tally;

use self::row_by_row::RowByRow;
pub(crate) use self::{
    congestion::Congestion,
    deferred::Deferred,
    ending::Ending,
    link::Link,
    not_yet_visible::{NotYetVisible, Origin},
    operations::TableOperations,
    pace::Pace,
    progress::{Progress, Ticket},
    publication::{Found, Publication},
    resync::{Coverage, Resync, Stream},
    settling::{Batching, Settled, Settling},
    slot_watch::{OverLimit, SlotWatch},
    status::StatusUpdates,
    tally::Tally,
};
