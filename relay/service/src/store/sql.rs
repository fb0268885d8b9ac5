//! The statements that the service sends to the database, apart from the commands of the replication protocol. The other commands
//! and the dashboard have their own.

use std::time::Duration;

/// How long a statement waits for a lock of someone else's before it gives up, to be tried again: meanwhile it delays
/// everything else. Less than the default `deadlock_timeout`, so that nobody's transaction is cancelled because of the relay.
pub(super) const PATIENCE_WITH_LOCKS: &str = "SET lock_timeout = '250ms'";

/// What the database keeps its texts in.
pub(super) const ENCODING: &str = "SELECT pg_catalog.current_setting('server_encoding')";

/// One snapshot for all queries of a scan.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
/// For what must not keep verdicts waiting.
pub(super) const BRIEFLY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '2s'";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// Which transactions are visible, and a position in the WAL from then.
pub(super) const SNAPSHOT: &str = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text";

/// How far the WAL is on disk.
pub(crate) const FLUSHED: &str = "SELECT pg_catalog.pg_current_wal_flush_lsn()::text";

/// Has the WAL written to disk up to a position.
pub(super) const FLUSH: &str = "SELECT outbox.flush($1::text::pg_lsn)";

/// A chunk of what is owed, as far as the events are small.
pub(super) fn owed(columns: &str) -> String {
    format!("SELECT {columns}, is_large, is_old FROM outbox.owed($1, $2, $3, $4, $5, $6)")
}

/// A chunk of what is owed, cut by bytes.
pub(super) fn pending(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.pending($1, $2, $3, $4, $5, $6, $7, $8)")
}

/// Events that hold their keys.
pub(super) const HOLDING: &str = "SELECT id, aggregate_type, aggregate_id FROM outbox.holding($1)";

/// A page of what is due.
pub(super) fn due(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.due($1, $2, $3, $4, $5, $6, $7)")
}

/// Milliseconds until the next event is due.
pub(super) const NEXT_DUE: &str = "SELECT outbox.next_due()";

/// Writes verdicts; returns the events that it could not write.
pub(super) const SETTLE: &str =
    "SELECT id, status::text AS status FROM outbox.settle($1, $2::text[]::outbox.status[], $3, $4, $5, $6)";

/// Makes or repairs the publication.
pub(crate) const ENSURE_PUBLICATION: &str = "SELECT outbox.ensure_publication($1)";

/// Mends the sequence of `seq`, if it is to be mended.
pub(super) const ENSURE_SEQUENCE: &str = "SELECT outbox.ensure_sequence()";

/// Whether the publication publishes all columns of every insert into the table. One of the table's whole schema counts as one that
/// does not.
pub(crate) const PUBLICATION_IS_WHOLE: &str = "SELECT publication.pubinsert AND (publication.puballtables OR EXISTS (
         SELECT FROM pg_catalog.pg_publication_rel AS rel
         WHERE rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
           AND pg_catalog.to_jsonb(rel) ->> 'prattrs' IS NULL AND pg_catalog.to_jsonb(rel) ->> 'prqual' IS NULL))
     FROM pg_catalog.pg_publication AS publication WHERE publication.pubname = $1";

/// What changes whenever the publication does: the rows in which PostgreSQL has it, and who wrote them. Null where those do not say
/// all, as for a publication of a whole schema.
pub(super) const PUBLISHED: &str =
    "SELECT pg_catalog.pg_current_snapshot()::text, publication.oid, publication.xmin::text, rel.oid, rel.xmin::text
     FROM (SELECT) AS once
     LEFT JOIN (
         pg_catalog.pg_publication AS publication
         LEFT JOIN pg_catalog.pg_publication_rel AS rel
             ON rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
     ) ON publication.pubname = $1 AND (rel.oid IS NOT NULL OR publication.puballtables)";

/// The transactions that have written to the table and have not ended, prepared ones among them: they keep their lock on it.
pub(super) const WRITERS: &str = "WITH locks AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks WHERE granted)
     SELECT DISTINCT own.transactionid::text FROM locks AS own JOIN locks AS held USING (virtualtransaction)
     WHERE own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock' AND held.mode = 'RowExclusiveLock'
       AND held.relation = pg_catalog.to_regclass('outbox.events')
       AND held.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

// At the start.

/// How long a start waits for a lock before it says for whom.
pub(crate) const LOCK_PATIENCE_AT_START: &str = "SET lock_timeout = '2s'";
pub(crate) const NO_LOCK_PATIENCE: &str = "RESET lock_timeout";

/// The oldest transaction that writes. One that is prepared has no session any more. How long one has been open is
/// shown only to its own role and to `pg_read_all_stats`.
pub const OLDEST_TRANSACTION: &str = "
    SELECT pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint,
        xid::text
    FROM (SELECT pid, usename, application_name, state, xact_start, backend_xid AS xid FROM pg_catalog.pg_stat_activity
          UNION ALL
          SELECT NULL, owner, 'prepared transaction ' || gid, 'prepared', prepared, transaction FROM pg_catalog.pg_prepared_xacts) AS t
    WHERE xid IS NOT NULL ORDER BY pg_catalog.age(xid) DESC LIMIT 1";

/// Locks that keep the publication from being made. They are those that a `SHARE UPDATE EXCLUSIVE` waits for
/// (<https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-TABLES>).
pub(crate) const KEEP_PUBLICATION_OUT: [&str; 5] =
    ["ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"];

/// Locks that keep verdicts from being written, and emitters from emitting.
pub(crate) const KEEP_VERDICTS_OUT: [&str; 4] =
    ["ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"];

/// Who has locked the table in one of the modes `$1`, the strongest lock first.
pub(crate) const TABLE_LOCK: &str = "
    SELECT holder.pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint
    FROM pg_catalog.pg_locks AS holder LEFT JOIN pg_catalog.pg_stat_activity USING (pid)
    WHERE holder.relation = pg_catalog.to_regclass('outbox.events') AND holder.granted AND holder.mode = ANY ($1)
      AND holder.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    ORDER BY holder.mode = 'AccessExclusiveLock' DESC, xact_start LIMIT 1";

/// Waits for whoever has locked the table as the relay's first statement would, and reads nothing. Whoever waits with a
/// stream would have it ended by the server.
pub(crate) const READ_TABLE: &str = "SELECT FROM outbox.pending(0, 0, 0, NULL, NULL, NULL, false) LIMIT 0";

/// Makes the server notice within some 15 s that the relay's machine is gone, and so end its session; its own default is
/// more than two hours. Without effect on a Unix socket
/// (<https://www.postgresql.org/docs/current/runtime-config-connection.html#RUNTIME-CONFIG-TCP-SETTINGS>).
pub(crate) const NOTICE_A_LOST_RELAY: &str = "SET tcp_keepalives_idle = '5s'; SET tcp_keepalives_interval = '3s';
                                   SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// Makes the server notice that a relay has died while a statement of its session waits, for a lock or for the transactions
/// that a new slot waits for. Otherwise the session lives until the statement ends. Servers on platforms that cannot tell
/// refuse it (<https://www.postgresql.org/docs/current/runtime-config-connection.html>).
pub(crate) const NOTICE_A_DEAD_RELAY: &str = "SET client_connection_check_interval = '500ms'";

/// Whatever the role or the database has set: verdicts wait for no standby, because one that a failover loses only repeats its event,
/// while a standby that is away would stop them all; and a relay with nothing to do is not ended.
pub(crate) const OWN_SETTINGS: &str =
    "SELECT pg_catalog.set_config(name, CASE name WHEN 'synchronous_commit' THEN 'local' ELSE '0' END, false)
     FROM pg_catalog.pg_settings
     WHERE name = 'idle_session_timeout' OR name = 'synchronous_commit' AND setting <> 'off'";

/// Ends a transaction that stands still for so long.
pub(crate) fn bound_idle_transactions(limit: Duration) -> String {
    format!("SET idle_in_transaction_session_timeout = {}", limit.as_millis())
}

/// Version of the extension.
pub const VERSION: &str = "SELECT outbox.version()";

/// Functions that a role has to be granted, to run a relay.
pub const RELAYING: &[&str] = &["settle", "owed", "pending", "due", "next_due", "holding", "flush"];

/// Whether this role may call the functions `$1`. Where everybody may execute one, it still answers only those who own it or were granted it:
/// that is `outbox.require_grant()`, in whose words this asks.
pub const MAY_CALL: &str = "
    SELECT coalesce(bool_and(has_function_privilege(p.oid, 'EXECUTE') AND (
            NOT has_function_privilege('public', p.oid, 'EXECUTE')
            OR EXISTS (
                SELECT FROM (
                    SELECT p.proowner
                    UNION ALL SELECT a.grantee FROM aclexplode(p.proacl) AS a WHERE a.grantee <> 0 AND a.privilege_type = 'EXECUTE'
                ) AS granted (role)
                JOIN pg_roles AS r ON r.rolname = session_user
                WHERE r.oid = granted.role OR NOT r.rolsuper AND pg_has_role(r.oid, granted.role, 'MEMBER'))))
        AND has_schema_privilege(to_regnamespace('outbox'), 'USAGE'), false)
    FROM pg_proc AS p
    WHERE p.pronamespace = to_regnamespace('outbox') AND p.proname = ANY ($1::text[])";

/// The statements that give this role back what everybody has in PostgreSQL unless somebody has revoked it, and without which no relay
/// sees its slot.
pub const MISSING_BEYOND_GRANTS: &str = "
    SELECT pg_catalog.format('GRANT EXECUTE ON FUNCTION pg_catalog.%I(%s) TO %I', p.proname,
        pg_catalog.pg_get_function_identity_arguments(p.oid), current_user)
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.proname IN ('pg_stat_get_activity', 'pg_get_replication_slots')
      AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
    UNION ALL
    SELECT pg_catalog.format('GRANT SELECT ON pg_catalog.%I TO %I', c.relname, current_user)
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relname IN ('pg_stat_activity', 'pg_replication_slots')
      AND NOT pg_catalog.has_table_privilege(c.oid, 'SELECT')";

/// The slot, and who reads it.
pub(crate) const SLOT: &str = "SELECT slot.plugin::text, slot.database = pg_catalog.current_database(),
            coalesce(slot.wal_status = 'lost', false), slot.active_pid,
            coalesce((pg_catalog.to_jsonb(slot) ->> 'failover')::bool, false), slot.database::text, slot.temporary
     FROM pg_catalog.pg_replication_slots AS slot
     WHERE slot.slot_name = $1";

/// Role and program of a server process.
pub(crate) const SESSION: &str =
    "SELECT coalesce(usename, '')::text, application_name FROM pg_catalog.pg_stat_activity WHERE pid = $1";

/// Drops the slot unless somebody reads it.
pub(crate) const DROP_SLOT: &str =
    "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots
     WHERE slot_name = $1 AND NOT active";

/// What the slot keeps of the WAL, whom its stream waits for, and the other slot of this server that keeps most.
pub(crate) const SLOT_KEEPS: &str = "
    SELECT slot.wal_status, (wal.written - slot.restart_lsn)::bigint, slot.safe_wal_size,
        (wal.written - slot.confirmed_flush_lsn)::bigint, slot.catalog_xmin::text,
        coalesce(reader.wait_event = 'WaitForStandbyConfirmation', false), other.slot_name::text, other.kept
    FROM (SELECT pg_catalog.pg_current_wal_lsn() AS written) AS wal
    JOIN pg_catalog.pg_replication_slots AS slot ON slot.slot_name = $1
    LEFT JOIN pg_catalog.pg_stat_activity AS reader ON reader.pid = slot.active_pid
    LEFT JOIN LATERAL (
        SELECT slot_name, (wal.written - restart_lsn)::bigint AS kept FROM pg_catalog.pg_replication_slots
        WHERE slot_name <> slot.slot_name AND restart_lsn IS NOT NULL AND wal_status <> 'lost' ORDER BY restart_lsn LIMIT 1
    ) AS other ON true";

/// Who reads the slot, if it is one that a relay of this database can read.
pub(crate) const OWN_SLOT_READER: &str = "SELECT active_pid FROM pg_catalog.pg_replication_slots
     WHERE slot_name = $1 AND database = pg_catalog.current_database() AND plugin = 'pgoutput'";

/// What the slot has confirmed.
pub(crate) const CONFIRMED: &str =
    "SELECT confirmed_flush_lsn::text FROM pg_catalog.pg_replication_slots WHERE slot_name = $1";

/// How far the WAL is on disk, and how much of it the slot's stream would begin with, in bytes.
pub(crate) const UNREAD: &str = "
    SELECT wal.flushed::text, (wal.flushed - slot.confirmed_flush_lsn)::bigint
    FROM (SELECT pg_catalog.pg_current_wal_flush_lsn() AS flushed) AS wal
    JOIN pg_catalog.pg_replication_slots AS slot ON slot.slot_name = $1
    WHERE slot.confirmed_flush_lsn IS NOT NULL";

/// The id that the next transaction gets, or a later one.
pub(crate) const NEXT_TRANSACTION: &str = "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text";

/// Whether every transaction with an id before this one has ended, and can be seen if it has committed.
pub(crate) const ALL_HAVE_ENDED_BEFORE: &str =
    "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) >= $1::text::xid8";

/// For how many milliseconds the server tolerates a silent reader; 0: for ever.
pub(crate) const WAL_SENDER_TIMEOUT: &str =
    "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'";
