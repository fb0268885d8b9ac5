//! Search of events by filter.

use super::event::{ENVELOPE, columns};

/// Condition that an event passes the filters.
const FITS: &str = "($1::text IS NULL OR e.topic = $1) AND ($2::text IS NULL OR e.topic LIKE $2)
    AND ($3::text IS NULL OR e.aggregate_type = $3) AND ($4::text IS NULL OR e.aggregate_id = $4)
    AND ($5::text IS NULL OR e.correlation_id = $5)
    AND ($6::text IS NULL OR e.created_at >= $6::text::timestamptz)
    AND ($7::text IS NULL OR e.created_at < $7::text::timestamptz)
    AND ($8::text IS NULL OR e.last_error LIKE $8)
    AND ($9::text IS NULL OR e.status = $9::text::outbox.status)
    AND ($10::uuid[] IS NULL OR e.id = ANY ($10))";

/// The events that a search covers; each case has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Events with the ids that are given.
    Ids,
    /// Pending events.
    Pending,
    /// Failed events.
    Failed,
    /// Events that hold their keys.
    Holding,
    /// All events, from the greatest id on: the newest, for ids that the outbox has made.
    All,
}

/// The order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    NewestFirst,
    OldestFirst,
}

/// Returns the statement for matching events, the newest or the oldest first.
pub(crate) fn events(among: Among, payload: bool, order: Order) -> String {
    let order = match order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let all = if payload {
        format!("{ENVELOPE}, e.content_type, e.headers, e.payload, e.payload_bytes")
    } else {
        ENVELOPE.to_owned()
    };
    let found = match among {
        Among::Ids => format!(
            "SELECT {all} FROM outbox.events AS e WHERE e.id = ANY ($10) AND {FITS} ORDER BY e.seq {order} LIMIT $11"
        ),
        Among::Pending => format!(
            "(SELECT {all} FROM outbox.events AS e
              WHERE e.status = 'PENDING' AND e.available_at IS NULL AND {FITS} ORDER BY e.seq {order} LIMIT $11)
             UNION ALL
             (SELECT {all} FROM outbox.events AS e
              WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL AND {FITS} ORDER BY e.seq {order} LIMIT $11)
             ORDER BY seq {order} LIMIT $11"
        ),
        Among::Failed => format!(
            "SELECT {all} FROM outbox.events AS e WHERE e.status = 'FAILED' AND {FITS} ORDER BY e.seq {order} LIMIT $11"
        ),
        Among::Holding => {
            format!(
                "SELECT {all} FROM outbox.events AS e WHERE e.holds_key AND {FITS} ORDER BY e.seq {order} LIMIT $11"
            )
        }
        Among::All => format!("SELECT {all} FROM outbox.events AS e WHERE {FITS} ORDER BY e.id {order} LIMIT $11"),
    };
    format!("SELECT {} FROM ({found}) AS e", columns(payload))
}

/// Leaves the planner only the indexes, whatever the statistics say. Events are then found in order, the newest first,
/// and the limit ends the search.
pub(crate) const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off";

/// Returns the statement for the ids of matching events, the oldest first, for a replay. For `SENT` it reads the whole
/// table.
pub(crate) fn ids(among: Among) -> String {
    let where_found = match among {
        Among::Holding => "e.holds_key AND e.status = 'FAILED' AND ",
        Among::Failed => "e.status = 'FAILED' AND ",
        Among::Pending | Among::Ids | Among::All => "",
    };
    format!("SELECT e.id FROM outbox.events AS e WHERE {where_found}{FITS} ORDER BY e.seq LIMIT $11")
}
