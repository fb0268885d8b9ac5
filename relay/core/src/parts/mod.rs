//! The parts that a session's state is made of. Each keeps one invariant behind private fields, and none knows the
//! machine or the dispatch.
//!
//! | part | what it decides |
//! |---|---|
//! | `resync` | when to read the table, and which part of the stream its rows cover |
//! | `publication` | when to look at the publication, and what its changes kept out of the stream |
//! | `deferred` | when to look for events whose time has come |
//! | `operations`, `row_by_row` | which operation on the table may come next, and whether it goes row by row |
//! | `settling` | how verdicts are written, and those that cannot be written yet |
//! | `progress`, `not_yet_visible` | up to where the WAL may be acknowledged |
//! | `status` | when the server gets a status update |
//! | `slot_watch` | when to look at the slot, and when it is over its limit for too long |
//! | `link` | whether the broker takes messages |
//! | `read_back` | from when on the sink reads what it has published |
//! | `floor` | until when the next session reads as far back as this one |
//! | `pace` | how many events `max_rate` lets leave |
//! | `congestion` | how long memory has been full |
//! | `ending` | whether the session ends, and how |
//! | `tally` | nothing: it counts, for metrics |

mod congestion;
mod deferred;
mod ending;
mod floor;
mod link;
mod not_yet_visible;
mod operations;
mod pace;
mod progress;
mod publication;
mod read_back;
mod resync;
mod row_by_row;
mod settling;
mod slot_watch;
mod status;
mod tally;

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
    read_back::ReadBack,
    resync::{Coverage, Resync, Stream},
    settling::{Batching, Settled, Settling},
    slot_watch::{OverLimit, SlotWatch},
    status::StatusUpdates,
    tally::Tally,
};
use self::{floor::Floor, row_by_row::RowByRow};
