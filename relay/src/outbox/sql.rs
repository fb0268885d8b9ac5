//! Every statement that the relay sends to the database, but for the commands of the replication protocol.

/// How long a statement waits for a lock of someone else's before it gives up, to be tried again: meanwhile it delays
/// everything else. Less than the default `deadlock_timeout`, so that nobody's transaction is cancelled because of the relay.
pub(super) const PATIENCE_WITH_LOCKS: &str = "SET lock_timeout = '250ms'";

/// One snapshot for all queries of a scan.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// Which transactions are visible, and a position in the log from then.
pub(super) const SNAPSHOT: &str = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text";

/// How far the log is on disk.
pub(crate) const FLUSHED: &str = "SELECT pg_catalog.pg_current_wal_flush_lsn()::text";

/// Has the log written to disk up to a position.
pub(super) const FLUSH: &str = "SELECT outbox.flush($1::text::pg_lsn)";

/// A page of what is owed.
pub(super) fn pending(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.pending($1, $2, $3, $4, $5, $6, $7, $8)")
}

/// Events that hold their keys.
pub(super) const HOLDING: &str = "SELECT id, aggregate_type, aggregate_id FROM outbox.holding($1)";

/// A page of what is due.
pub(super) fn due(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.due($1, $2, $3, $4, $5, $6)")
}

/// Milliseconds until the next event is due.
pub(super) const NEXT_DUE: &str = "SELECT outbox.next_due()";

/// Writes verdicts; returns the events that it could not write.
pub(super) const SETTLE: &str =
    "SELECT id, status::text AS status FROM outbox.settle($1, $2::text[]::outbox.status[], $3, $4, $5, $6)";

/// Makes or mends the publication.
pub(crate) const ENSURE_PUBLICATION: &str = "SELECT outbox.ensure_publication($1)";

/// What changes whenever the publication does: the rows in which PostgreSQL has it, and who wrote them. Null where those do not say
/// all, as for a publication of a whole schema.
pub(super) const PUBLISHED: &str = "SELECT pg_current_snapshot()::text, (
        SELECT concat_ws(' ', publication.oid, publication.xmin, rel.oid, rel.xmin)
        FROM pg_catalog.pg_publication AS publication
        LEFT JOIN pg_catalog.pg_publication_rel AS rel
            ON rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
        WHERE publication.pubname = $1 AND (rel.oid IS NOT NULL OR publication.puballtables)
    )";
