//! Finished events, and the deletion of those that are old. By one rule, that of `outbox.delete_finished()`: asked for
//! by retention and by `purge`; `outbox.maintain()` has it from there, too.

use std::time::Duration;

use tokio_postgres::{Error, Row};
use uuid::Uuid;

/// Functions that a role has to be granted, to delete what is old.
pub(crate) const RETENTION_FUNCTIONS: &[&str] = &["delete_finished", "delete_pages"];

/// The file that the table is in, and how many pages that has.
pub(crate) const FILE: &str = "SELECT pg_relation_filenode('outbox.events') AS file,
    pg_relation_size('outbox.events') / current_setting('block_size')::bigint AS pages";

/// How many events in the `$4` pages from page `$3` on have been SENT since before `$1` or FAILED since before `$2`:
/// those that may be deleted, and those that hold their keys. `outbox.delete_finished` has the same rule; a role that
/// only counts may not call it.
pub(crate) const COUNT: &str =
    "SELECT count(*) FILTER (WHERE NOT holds_key) AS old, count(*) FILTER (WHERE holds_key) AS holding
    FROM ONLY outbox.events
    WHERE (status = 'SENT' AND coalesce(processed_at, created_at) < $1::text::timestamptz
        OR status = 'FAILED' AND coalesce(processed_at, created_at) < $2::text::timestamptz)
      AND ctid >= format('(%s,0)', $3::bigint)::tid AND ctid < format('(%s,0)', $3::bigint + $4::integer)::tid";

/// Deletes them: by ages in seconds.
pub(crate) fn delete_older() -> String {
    delete("now() - make_interval(secs => $1), now() - make_interval(secs => $2)")
}

/// Deletes them: by times.
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

/// What was deleted of some pages, and what stays.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) deleted: i64,
    /// Events that hold their keys.
    pub(crate) holding: i64,
    /// Events that others have locked.
    pub(crate) locked: i64,
    /// Events whose deletion was refused.
    pub(crate) refused: i64,
    /// One of these, and why.
    pub(crate) refusal: Option<(Uuid, String)>,
    /// How long ago the oldest that is left became SENT.
    pub(crate) sent_age: Option<Duration>,
    /// How long ago the oldest that is left FAILED.
    pub(crate) failed_age: Option<Duration>,
}

impl Deleted {
    /// Reads a row of these statements.
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        let age = |column| {
            let seconds: Option<f64> = row.try_get(column)?;
            Ok::<_, Error>(seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
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

/// Deletes those of the events `$1` that are finished, and have the status `$2` unless that is null. Says what became
/// of each.
pub(crate) const DELETE_BY_ID: &str =
    "SELECT event_id, outcome, because FROM outbox.delete_events($1::uuid[], $2::text::outbox.status)";
