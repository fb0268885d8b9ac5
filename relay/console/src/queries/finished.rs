//! Finished events, and the deletion of old ones by the rule of `outbox.delete_finished()`. Retention and `purge` use
//! it, and `outbox.maintain()` uses the same function.

use std::time::Duration;

use tokio_postgres::{
    Error, Row,
    error::{Severity, SqlState},
};
use uuid::Uuid;

use crate::format::seconds;

/// Functions that a role must be granted to delete old events.
pub(crate) const RETENTION_FUNCTIONS: &[&str] = &["delete_finished", "delete_pages"];

/// The table's file, and its number of pages.
pub(crate) const FILE: &str = "SELECT pg_relation_filenode('outbox.events') AS file,
    pg_relation_size('outbox.events') / current_setting('block_size')::bigint AS pages";

/// Counts the events in the `$4` pages from page `$3` on that were SENT before `$1` or FAILED before `$2`: those that
/// may be deleted, and those that hold their keys. The rule of `outbox.delete_finished` is repeated, because a role
/// that only counts may not call it.
pub(crate) const COUNT: &str =
    "SELECT count(*) FILTER (WHERE NOT holds_key) AS old, count(*) FILTER (WHERE holds_key) AS holding
    FROM ONLY outbox.events
    WHERE (status = 'SENT' AND coalesce(processed_at, created_at) < $1::text::timestamptz
        OR status = 'FAILED' AND coalesce(processed_at, created_at) < $2::text::timestamptz)
      AND ctid >= format('(%s,0)', $3::bigint)::tid AND ctid < format('(%s,0)', $3::bigint + $4::integer)::tid";

/// Whether the error concerns one step only: its pages cannot be read, or a row takes too long. A missing right, a
/// locked table and a read-only server concern every step.
pub(crate) fn is_of_one_step(error: &Error) -> bool {
    let everywhere =
        [&SqlState::INSUFFICIENT_PRIVILEGE, &SqlState::LOCK_NOT_AVAILABLE, &SqlState::READ_ONLY_SQL_TRANSACTION];
    error.as_db_error().is_some_and(|refusal| {
        refusal.parsed_severity() == Some(Severity::Error) && !everywhere.contains(&refusal.code())
    })
}

/// Returns the statement that deletes old events, by ages in seconds.
pub(crate) fn delete_older() -> String {
    delete("now() - make_interval(secs => $1), now() - make_interval(secs => $2)")
}

/// Returns the statement that deletes old events, by times.
pub(crate) fn delete_before() -> String {
    delete("$1::text::timestamptz, $2::text::timestamptz")
}

fn delete(before: &str) -> String {
    format!(
        "SELECT deleted, holding, locked, refused, refused_id, refused_because,
            extract(epoch FROM now() - oldest_sent)::float8 AS sent_age,
            extract(epoch FROM now() - oldest_failed)::float8 AS failed_age
         FROM outbox.delete_finished({before}, $3::bigint, $4::integer)"
    )
}

/// Counts of deleted and kept events of some pages.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) deleted: i64,
    /// Old events that stay because they hold their keys.
    pub(crate) holding: i64,
    /// Old events that stay because others have locked them.
    pub(crate) locked: i64,
    /// Events whose deletion was refused.
    pub(crate) refused: i64,
    /// One event whose deletion was refused, and why.
    pub(crate) refusal: Option<(Uuid, String)>,
    /// How long ago the oldest remaining SENT event became SENT.
    pub(crate) sent_age: Option<Duration>,
    /// How long ago the oldest remaining FAILED event FAILED.
    pub(crate) failed_age: Option<Duration>,
}

impl Deleted {
    /// Reads a row of these statements.
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        let age = |column| {
            let age: Option<f64> = row.try_get(column)?;
            Ok::<_, Error>(age.map(seconds))
        };
        let (id, because): (Option<Uuid>, Option<String>) =
            (row.try_get("refused_id")?, row.try_get("refused_because")?);
        Ok(Self {
            deleted: row.try_get("deleted")?,
            holding: row.try_get("holding")?,
            locked: row.try_get("locked")?,
            refused: row.try_get("refused")?,
            refusal: id.map(|id| (id, because.unwrap_or_default())),
            sent_age: age("sent_age")?,
            failed_age: age("failed_age")?,
        })
    }
}

/// Deletes the finished events among `$1`, only those with the status `$2` unless it is null. Returns the result for
/// each.
pub(crate) const DELETE_BY_ID: &str =
    "SELECT event_id, outcome, because FROM outbox.delete_events($1::uuid[], $2::text::outbox.status)";
