//! The service's SQL statements, without the commands of the replication protocol. The program's other commands and the
//! dashboard have statements of their own.

use std::time::Duration;

/// Limits a statement's wait for a lock, which delays all other statements; afterwards it is tried again. The limit is
/// less than the default `deadlock_timeout`, so that no transaction is cancelled because of the relay.
pub(super) const PATIENCE_WITH_LOCKS: &str = "SET lock_timeout = '250ms'";

/// The database's encoding.
pub(super) const ENCODING: &str = "SELECT pg_catalog.current_setting('server_encoding')";

/// Begins a scan's transaction, in which all queries use one snapshot.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
/// Begins a transaction whose statements are limited in time, because verdicts wait for it.
pub(super) const BRIEFLY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '2s'";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// The current snapshot, and the position in the WAL at that time.
pub(super) const SNAPSHOT: &str = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text";

/// The position up to which the WAL is on disk.
pub(crate) const FLUSHED: &str = "SELECT pg_catalog.pg_current_wal_flush_lsn()::text";

/// Makes the server write the WAL to disk up to a position.
pub(super) const FLUSH: &str = "SELECT outbox.flush($1::text::pg_lsn)";

/// Pending events, limited by their number only; ends before the first large one.
pub(super) fn pending_page(columns: &str) -> String {
    format!("SELECT {columns}, is_large, is_old FROM outbox.pending_page($1, $2, $3, $4, $5, $6)")
}

/// Pending events, limited by their number and their stored bytes.
pub(super) fn pending_page_by_bytes(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.pending_page_by_bytes($1, $2, $3, $4, $5, $6, $7, $8)")
}

/// Events that hold their keys.
pub(super) const KEY_HOLDERS: &str = "SELECT id, aggregate_type, aggregate_id FROM outbox.key_holders($1)";

/// How long ago the last verdict was written, in microseconds of the server's clock; null: nothing tells.
pub(super) const LAST_SETTLED: &str = "
    SELECT (pg_catalog.extract('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) outbox.last_settled())
            OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8";

/// Keeps what the next session needs to know of events that the broker may have. Ages are in microseconds.
pub(super) const KEEP_IN_DOUBT: &str = "SELECT outbox.keep_in_doubt($1, $2, $3, $4, $5, $6)";

/// The floor, whose `replays` are -1, and the events that were kept and are still pending.
pub(super) const IN_DOUBT: &str = "SELECT id, replays, microseconds_ago, delivered FROM outbox.events_in_doubt($1, $2)";

/// Deferred events that are due, limited by their number and their stored bytes.
pub(super) fn due_page(columns: &str) -> String {
    format!("SELECT {columns} FROM outbox.due_page($1, $2, $3, $4, $5, $6, $7)")
}

/// Milliseconds until the next event is due.
pub(super) const NEXT_DUE: &str = "SELECT outbox.next_due()";

/// Writes verdicts; returns the events whose verdicts were not written.
pub(super) const SETTLE: &str =
    "SELECT id, status::text AS status FROM outbox.settle($1, $2::text[]::outbox.status[], $3, $4, $5, $6)";

/// Whether the session may write: not on a standby.
pub(super) const MAY_WRITE: &str =
    "SELECT pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off'";

/// Creates or repairs the publication.
pub(crate) const ENSURE_PUBLICATION: &str = "SELECT outbox.ensure_publication($1)";

/// Repairs the sequence of `seq`, if necessary.
pub(super) const ENSURE_SEQUENCE: &str = "SELECT outbox.ensure_sequence()";

/// Whether the publication publishes all columns of every insert into the table. A publication of the whole schema
/// counts as incomplete.
pub(crate) const PUBLICATION_IS_WHOLE: &str = "SELECT publication.pubinsert AND (publication.puballtables OR EXISTS (
         SELECT FROM pg_catalog.pg_publication_rel AS rel
         WHERE rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
           AND pg_catalog.to_jsonb(rel) ->> 'prattrs' IS NULL AND pg_catalog.to_jsonb(rel) ->> 'prqual' IS NULL))
     FROM pg_catalog.pg_publication AS publication WHERE publication.pubname = $1";

/// The publication's catalogue rows and the transactions that wrote them, which change whenever the publication does.
/// They are null where these rows do not describe it fully, as for a publication of a whole schema.
pub(super) const PUBLISHED: &str =
    "SELECT pg_catalog.pg_current_snapshot()::text, publication.oid, publication.xmin::text, rel.oid, rel.xmin::text
     FROM (SELECT) AS once
     LEFT JOIN (
         pg_catalog.pg_publication AS publication
         LEFT JOIN pg_catalog.pg_publication_rel AS rel
             ON rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
     ) ON publication.pubname = $1 AND (rel.oid IS NOT NULL OR publication.puballtables)";

/// The open transactions that have written to the table, found by their locks on it. Prepared transactions keep their
/// locks and are included.
pub(super) const WRITERS: &str = "WITH locks AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks WHERE granted)
     SELECT DISTINCT own.transactionid::text FROM locks AS own JOIN locks AS held USING (virtualtransaction)
     WHERE own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock' AND held.mode = 'RowExclusiveLock'
       AND held.relation = pg_catalog.to_regclass('outbox.events')
       AND held.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

// Statements of the startup.

/// Limits the startup's wait for a lock, after which it logs who has the lock and waits on.
pub(crate) const LOCK_PATIENCE_AT_START: &str = "SET lock_timeout = '2s'";
pub(crate) const NO_LOCK_PATIENCE: &str = "RESET lock_timeout";

/// The oldest writing transaction; a prepared one has no session any more. PostgreSQL shows a transaction's age only to
/// its own role and to `pg_read_all_stats`.
pub const OLDEST_TRANSACTION: &str = "
    SELECT pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint,
        xid::text
    FROM (SELECT pid, usename, application_name, state, xact_start, backend_xid AS xid FROM pg_catalog.pg_stat_activity
          UNION ALL
          SELECT NULL, owner, 'prepared transaction ' || gid, 'prepared', prepared, transaction FROM pg_catalog.pg_prepared_xacts) AS t
    WHERE xid IS NOT NULL ORDER BY pg_catalog.age(xid) DESC LIMIT 1";

/// Locks that prevent the creation of the publication, which needs a `SHARE UPDATE EXCLUSIVE` lock
/// (<https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-TABLES>).
pub(crate) const KEEP_PUBLICATION_OUT: [&str; 5] =
    ["ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"];

/// Locks that prevent writes to the table: verdicts and new events.
pub(crate) const KEEP_VERDICTS_OUT: [&str; 4] =
    ["ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"];

/// The session with the strongest lock on the table, among the modes `$1`.
pub(crate) const TABLE_LOCK: &str = "
    SELECT holder.pid, coalesce(usename, '')::text, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint
    FROM pg_catalog.pg_locks AS holder LEFT JOIN pg_catalog.pg_stat_activity USING (pid)
    WHERE holder.relation = pg_catalog.to_regclass('outbox.events') AND holder.granted AND holder.mode = ANY ($1)
      AND holder.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    ORDER BY holder.mode = 'AccessExclusiveLock' DESC, xact_start LIMIT 1";

/// Waits until the table can be read, and reads nothing. The wait comes before the stream starts, because the server
/// would end a stream whose relay waits for a lock.
pub(crate) const READ_TABLE: &str =
    "SELECT FROM outbox.pending_page_by_bytes(0, 0, 0, NULL, NULL, NULL, false) LIMIT 0";

/// Makes the server notice within some 15 s that the relay's machine is gone, and end the session; the default is more
/// than two hours. The settings have no effect on a Unix socket
/// (<https://www.postgresql.org/docs/current/runtime-config-connection.html#RUNTIME-CONFIG-TCP-SETTINGS>).
pub(crate) const NOTICE_A_LOST_RELAY: &str = "SET tcp_keepalives_idle = '5s'; SET tcp_keepalives_interval = '3s';
                                   SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// Makes the server notice that a relay has died while its statement waits for a lock or for older transactions;
/// otherwise the session lives until the statement ends. Servers on some platforms refuse the setting
/// (<https://www.postgresql.org/docs/current/runtime-config-connection.html>).
pub(crate) const NOTICE_A_DEAD_RELAY: &str = "SET client_connection_check_interval = '500ms'";

/// Makes verdicts wait for no standby, because a standby that is away would stop all of them, and a verdict lost by a
/// failover only repeats its event.
pub(crate) const WAIT_FOR_NO_STANDBY: &str = "
    SELECT pg_catalog.set_config('synchronous_commit', 'local', false)
    WHERE pg_catalog.current_setting('synchronous_commit') <> 'off'";

/// Limits how long the session may be idle in a transaction; afterwards the server ends the session.
pub(crate) fn bound_idle_transactions(limit: Duration) -> String {
    format!("SET idle_in_transaction_session_timeout = {}", limit.as_millis())
}

/// The extension's version.
pub const VERSION: &str = "SELECT outbox.version()";

/// Functions that a relay's role must be granted.
pub const RELAYING: &[&str] = &[
    "settle",
    "pending_page",
    "pending_page_by_bytes",
    "due_page",
    "next_due",
    "key_holders",
    "last_settled",
    "keep_in_doubt",
    "events_in_doubt",
    "flush",
];

/// Whether this role may call the functions `$1`. A function that everybody may execute still requires ownership or an
/// explicit grant: this repeats the condition of `outbox.require_grant()`.
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

/// The statements that give this role back the rights that it needs to see its slot, which everybody has in PostgreSQL
/// unless somebody has revoked them.
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

/// The slot, and the server process that reads it.
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

/// The WAL that the slot keeps, whether its stream waits for a standby, and the slot that keeps most of all others.
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

/// The server process that reads the slot, if a relay of this database can read it.
pub(crate) const OWN_SLOT_READER: &str = "SELECT active_pid FROM pg_catalog.pg_replication_slots
     WHERE slot_name = $1 AND database = pg_catalog.current_database() AND plugin = 'pgoutput'";

/// The position that the slot has confirmed.
pub(crate) const CONFIRMED: &str =
    "SELECT confirmed_flush_lsn::text FROM pg_catalog.pg_replication_slots WHERE slot_name = $1";

/// The position up to which the WAL is on disk, and how much of it the slot has not confirmed, in bytes.
pub(crate) const UNREAD: &str = "
    SELECT wal.flushed::text, (wal.flushed - slot.confirmed_flush_lsn)::bigint
    FROM (SELECT pg_catalog.pg_current_wal_flush_lsn() AS flushed) AS wal
    JOIN pg_catalog.pg_replication_slots AS slot ON slot.slot_name = $1
    WHERE slot.confirmed_flush_lsn IS NOT NULL";

/// An id for this statement's own transaction: every transaction that has written until now has a lower one. A
/// snapshot alone does not say so: its `xmax` is one more than the highest id of a transaction that has *ended*, so a
/// commit that nobody can see yet may have that very id, and be in no list.
pub(crate) const TAKE_ID: &str = "SELECT pg_catalog.pg_current_xact_id()::text";

/// Whether every transaction with an id below `$1` has ended, and is visible if it has committed.
pub(crate) const ALL_HAVE_ENDED_BEFORE: &str =
    "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) >= $1::text::xid8";

/// The time for which the server tolerates a silent reader, in milliseconds; 0: for ever.
pub(crate) const WAL_SENDER_TIMEOUT: &str =
    "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'";
