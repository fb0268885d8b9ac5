//! Every statement of the commands but `run` and `init`.

use std::time::Duration;

use super::event::{ENVELOPE, columns, time};

/// Longest `statement_timeout` that PostgreSQL takes, in milliseconds: 24 days.
const MOST_MILLIS: u128 = i32::MAX as u128;

/// Returns the settings of a command's session: times are UTC, a statement ends after `limit`, and it waits for locks
/// no longer than a person would.
pub(crate) fn settings(limit: Duration) -> String {
    format!(
        "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET lock_timeout = '5s'; {}; \
         SET default_transaction_read_only = off; SET jit = off",
        end_after(limit)
    )
}

/// Returns the setting that ends each statement after `limit`.
pub(crate) fn end_after(limit: Duration) -> String {
    format!("SET statement_timeout = {}", limit.as_millis().min(MOST_MILLIS))
}

/// Returns the statement that makes a time absolute, as text: the time `$1`, or `$2` seconds before it.
pub(crate) fn fixed_time() -> String {
    let at = time("at");
    format!("SELECT {at} FROM (SELECT $1::text::timestamptz - $2::bigint * interval '1 second' AS at) AS e")
}

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

/// Replays the events of `$1` that still match, and returns their number. The filters are passed too, for
/// `outbox.audit`.
pub(crate) const REPLAY: &str = "SELECT outbox.replay_many(ids => $1::uuid[], status => $2::text::outbox.status,
    topic => $3, topic_like => $4, aggregate_type => $5, aggregate_id => $6, correlation_id => $7,
    created_from => $8::text::timestamptz, created_to => $9::text::timestamptz, error_like => $10)";

/// Sets the operator's name, for `outbox.audit`.
pub(crate) const OPERATOR: &str = "SELECT set_config('outbox.operator', $1, false)";

/// Releases the keys of these events, and returns how many held theirs.
pub(crate) const RELEASE: &str = "SELECT count(*) FILTER (WHERE outbox.release(id)) FROM unnest($1::uuid[]) AS id";

/// Foreign keys that refer to the table, and whose own columns have no index.
pub(crate) const KEYS_WITHOUT_INDEX: &str = "
    SELECT format('%s (%s)', foreign_key.conrelid::regclass, a.attname)
    FROM pg_constraint AS foreign_key
    JOIN pg_attribute AS a ON a.attrelid = foreign_key.conrelid AND a.attnum = foreign_key.conkey[1]
    WHERE foreign_key.contype = 'f' AND foreign_key.confrelid = to_regclass('outbox.events')
      AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = foreign_key.conrelid AND i.indkey[0] = foreign_key.conkey[1] AND i.indisvalid)
    ORDER BY 1";

// The following statements are for `check`.

pub(crate) use outbox_service::store::sql::{MAY_CALL, MISSING_BEYOND_GRANTS, RELAYING, VERSION};

/// Whether this role may read events, a right that operators need and a relay does not.
pub(crate) const MAY_READ_EVENTS: &str = "SELECT has_any_column_privilege('outbox.events', 'SELECT')";

/// Rights on the outbox that PUBLIC has and should not have, such as `SELECT on table outbox.events`, each with the
/// statement that revokes it.
pub(crate) const OPEN_TO_PUBLIC: &str = "
    SELECT privilege || ' on ' || object AS open_right, closing FROM outbox.open_to_public() ORDER BY object, privilege";

/// The same rights on the inbox, if this database has one.
pub(crate) const INBOX_OPEN_TO_PUBLIC: &str = "
    SELECT privilege || ' on ' || object AS open_right, closing FROM outbox.open_to_public('inbox')
    WHERE EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
                  WHERE n.nspname = 'inbox' AND p.proname = 'receive')
    ORDER BY object, privilege";

/// Roles with rights in the schema that no `outbox.grant_*()` gives, and these rights, such as `SELECT on table
/// outbox.events`. A role that may execute the function by which a grant is recognized counts as having that grant; the
/// owner, superusers and PUBLIC, which has its own statement, are left out.
pub(crate) const OTHER_RIGHTS: &str = "
    WITH given (known_by, functions) AS (VALUES
        ('emit', '{emit}'::text[]),
        ('settle', '{pending_page,pending_page_by_bytes,due_page,next_due,flush,health,health_with_codes,key_holders,settle,ensure_publication,open_to_public,sequence_state,ensure_sequence}'),
        ('failures', '{health,health_with_codes,failures,open_to_public,sequence_state}'),
        ('replay_many', '{replay,release,replay_many}'),
        ('delete_pages', '{delete_finished,delete_pages,delete_events,delete_one_by_one,maintain}')
    ), given_to AS (
        SELECT acl.grantee, g.known_by, g.functions
        FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(p.proacl) AS acl JOIN given AS g ON g.known_by = p.proname
        WHERE p.pronamespace = 'outbox'::regnamespace AND acl.grantee NOT IN (0, p.proowner)
    ), object (name, owner, acl, kind, word) AS (
        SELECT 'schema outbox', n.nspowner, n.nspacl, 'schema', NULL FROM pg_namespace AS n WHERE n.nspname = 'outbox'
        UNION ALL
        SELECT concat(CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view ' ELSE 'table ' END, c.oid::regclass), c.relowner, c.relacl,
            'relation', c.relname
        FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT format('column %I of %s', a.attname, c.oid::regclass), c.relowner, a.attacl, concat('column of ', c.relname), a.attname
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'outbox'::regnamespace AND a.attacl IS NOT NULL AND NOT a.attisdropped
        UNION ALL
        SELECT format('function %s', p.oid::regprocedure), p.proowner, p.proacl, 'function', p.proname
        FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
    )
    SELECT r.oid::regrole::text AS role,
        array_agg(acl.privilege_type || ' on ' || o.name ORDER BY o.kind DESC, o.name, acl.privilege_type) AS rights
    FROM object AS o CROSS JOIN LATERAL aclexplode(o.acl) AS acl JOIN pg_roles AS r ON r.oid = acl.grantee
    WHERE r.oid <> o.owner AND NOT r.rolsuper
      AND NOT (o.kind = 'schema' AND acl.privilege_type = 'USAGE')
      AND NOT (o.kind = 'function' AND o.word IN ('version', 'uuid_v7', 'wake_relay'))
      AND NOT EXISTS (
          SELECT FROM given_to AS g
          WHERE g.grantee = r.oid AND CASE o.kind
              WHEN 'function' THEN o.word = ANY (g.functions)
              WHEN 'relation' THEN acl.privilege_type = 'SELECT' AND (g.known_by = 'failures' AND o.word IN ('failed', 'backlog', 'audit')
                  OR g.known_by = 'replay_many' AND o.word = 'events')
              WHEN 'column of events' THEN g.known_by = 'emit' AND acl.privilege_type = 'INSERT'
                  OR g.known_by = 'failures' AND acl.privilege_type = 'SELECT' AND o.word NOT IN ('payload', 'payload_bytes', 'headers')
              ELSE false END)
    GROUP BY r.oid ORDER BY 1";

/// Free connections, senders and slots of the server, the slot's limit, and settings that would stop a relay later.
pub(crate) const ROOM: &str = "SELECT
        (SELECT count(*) FROM pg_replication_slots) AS slots,
        current_setting('max_replication_slots')::int AS most_slots,
        (SELECT count(*) FROM pg_stat_replication) AS senders,
        current_setting('max_wal_senders')::int AS most_senders,
        EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1) AS slot_is_there,
        EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active) AS slot_is_read,
        (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS keep_mb,
        current_setting('synchronous_standby_names') AS standbys,
        (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only')
            AS others_are_read_only";

/// Whether pgoutput may read the WAL; null on a server without a list of plugins. Only some roles may see the list.
pub(crate) const OUTPUT_PLUGIN: &str = "SELECT list, 'pgoutput' = ANY (SELECT pg_catalog.btrim(name, ' \"')
        FROM pg_catalog.string_to_table(list, ',') AS name)
    FROM pg_catalog.current_setting('output_plugin_libraries', true) AS list";

/// The database's clock, in seconds since 1970.
pub(crate) const CLOCK: &str = "SELECT extract(epoch FROM clock_timestamp())::float8";

/// The slot: plugin, whether it belongs to this database and is read, the WAL that it keeps, whether it is still being
/// created, and its owner.
pub(crate) const SLOT: &str = "
    SELECT plugin::text AS plugin, database = current_database() AS is_here, active, wal_status,
        CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint END AS kept,
        safe_wal_size AS safe, confirmed_flush_lsn IS NULL AS is_unconfirmed,
        coalesce((to_jsonb(s) ->> 'failover')::bool, false) AS is_copied,
        current_setting('server_version_num')::int AS version,
        database::text AS database, temporary AS is_temporary, active_pid AS pid
    FROM pg_replication_slots AS s WHERE slot_name = $1";

/// The table's triggers, and when each fires.
pub(crate) const TRIGGERS: &str = "SELECT tgname::text AS name, tgenabled::text AS mode FROM pg_trigger
    WHERE tgrelid = to_regclass('outbox.events') AND NOT tgisinternal";

/// Whether the publication has inserts and the table, whether it has only a part of the table, and whether the server
/// supports publications of schemas.
pub(crate) const PUBLICATION: &str = "SELECT p.pubinsert AS inserts, p.puballtables OR r.oid IS NOT NULL AS has_table,
        coalesce(to_jsonb(r) ->> 'prattrs' IS NOT NULL OR to_jsonb(r) ->> 'prqual' IS NOT NULL, false) AS is_partial,
        to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL AS knows_schemas
    FROM pg_publication AS p
    LEFT JOIN pg_publication_rel AS r ON r.prpubid = p.oid AND r.prrelid = to_regclass('outbox.events')
    WHERE p.pubname = $1";

/// State of the sequence of `seq`.
pub(crate) const SEQUENCE: &str = "SELECT next_value, codes, fault FROM outbox.sequence_state()";

/// The role that would create the publication, if it lacks the right to, and the statement that grants it.
pub(crate) const MAY_NOT_PUBLISH: &str = "
    SELECT c.relowner::regrole::text AS owner,
        format('GRANT CREATE ON DATABASE %I TO %s', current_database(), c.relowner::regrole) AS statement
    FROM pg_class AS c
    WHERE c.oid = to_regclass('outbox.events') AND NOT has_database_privilege(c.relowner, current_database(), 'CREATE')";

/// Whether the publication has the table's schema (since PostgreSQL 15).
pub(crate) const PUBLISHES_SCHEMA: &str = "SELECT EXISTS (SELECT FROM pg_publication AS p
    JOIN pg_publication_namespace AS n ON n.pnpubid = p.oid
    WHERE p.pubname = $1 AND n.pnnspid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('outbox.events')))";

/// Events of the last day by exchange and topic: their number, how long ago the last was routed and the last has
/// failed, and the broker's words to the latter. Ids that the outbox has made are found by the time in them, and failed
/// events by their index.
pub(crate) const ROUTES: &str = "SELECT exchange, topic, count(*) AS events,
        extract(epoch FROM clock_timestamp() - max(processed_at) FILTER (WHERE status = 'SENT'))::float8 AS routed_ago,
        extract(epoch FROM clock_timestamp() - max(last_attempted_at) FILTER (WHERE status = 'FAILED'))::float8
            AS failed_ago,
        (array_agg(left(last_error, 200) ORDER BY last_attempted_at DESC) FILTER (WHERE status = 'FAILED'))[1] AS why
    FROM (
        (SELECT exchange, topic, status, processed_at, last_attempted_at, last_error FROM outbox.events
         WHERE status <> 'FAILED' AND created_at > now() - interval '1 day'
           AND id > (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
         ORDER BY id DESC LIMIT $1)
        UNION ALL
        (SELECT exchange, topic, status, processed_at, last_attempted_at, last_error FROM outbox.events
         WHERE status = 'FAILED' AND last_attempted_at > now() - interval '1 day'
         ORDER BY seq DESC LIMIT $1)
    ) AS lately
    GROUP BY exchange, topic ORDER BY exchange, topic";
