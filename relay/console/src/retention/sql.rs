//! The statements of retention.

/// A step that is lost in a crash is taken again, and waits for no standby. It gives up when it takes far too long. A row that was changed
/// meanwhile is looked at again, whatever the role's default is.
pub(super) const ONLY_MAINTAINS: &str =
    "SET synchronous_commit = off; SET statement_timeout = '60s'; SET default_transaction_isolation = 'read committed'";

/// The file that the table is in, and how many pages that has.
pub(super) const FILE: &str = "SELECT pg_relation_filenode('outbox.events') AS file,
    pg_relation_size('outbox.events') / current_setting('block_size')::bigint AS pages";

/// Deletes, in the pages from `$3` on, what was SENT more than `$1` seconds ago or FAILED more than `$2`, and says how old the oldest is that
/// is left.
pub(super) const DELETE_FINISHED: &str = "
    SELECT deleted, holding, refused, refused_id, refused_because,
        extract(epoch FROM now() - oldest_sent)::float8 AS sent_age, extract(epoch FROM now() - oldest_failed)::float8 AS failed_age
    FROM outbox.delete_finished(now() - make_interval(secs => $1), now() - make_interval(secs => $2), $3, $4)";
