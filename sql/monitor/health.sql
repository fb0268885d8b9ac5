-- Answers "do events flow?" in one row, to alert on:
--
--     SELECT healthy, reason FROM outbox.health();
--     SELECT codes FROM outbox.health_with_codes(max_pending_age => '5 min', max_failed => 100);
--
-- healthy is false if anything is wrong, and reason then says what, the worst first, in a sentence for people; codes has a word for each
-- part of it, for programs. It is null if nothing is known to be wrong and
-- something could not be seen: unseen says what. What the relay's own process knows, such as a broker that is away, is not in the
-- database: it shows here as events that grow old.
--
-- Whatever is in the table, at most some ten thousand entries of each partial index are read. Counts are exact up to 10,000, and an
-- estimate beyond.
CREATE OR REPLACE FUNCTION outbox.health_with_codes(
    slot             text     DEFAULT 'outbox',
    max_pending_age  interval DEFAULT '1 min',
    max_retrying_age interval DEFAULT '10 min',
    max_failed       bigint   DEFAULT 0,
    max_kept_bytes   bigint   DEFAULT 1073741824, -- 1 GiB
    OUT healthy               boolean,
    OUT reason                text,
    OUT codes                 text[],  -- empty: nothing is known to be wrong
    OUT unseen                text,
    OUT pending               bigint,
    OUT pending_is_estimate   boolean,
    OUT oldest_pending        interval,
    OUT retrying              bigint,
    OUT oldest_retrying       interval,
    OUT scheduled             bigint,
    OUT scheduled_is_estimate boolean, -- and retrying
    OUT failed                bigint,
    OUT failed_is_estimate    boolean,
    OUT keys_held             bigint,
    OUT slot_active           boolean,
    OUT slot_wal_status       text,
    OUT slot_kept_bytes       bigint,
    OUT slot_safe_bytes       bigint,
    OUT slot_behind_bytes     bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    max_exact CONSTANT integer := 10000;
    since CONSTANT timestamptz := clock_timestamp();
    -- An age is shown in two units at most, as the relay shows it: 3m 7s, 2h 5m, 6d.
    units CONSTANT text := 'FMDD"d "FMHH24"h "FMMI"m "FMSS"s"';
    two_of_them CONSTANT text := '^(?:0[dhm] )*([^ ]+(?: [1-9][0-9]*[hms])?)';
    overdue bigint;
    oldest_overdue timestamptz;
    due bigint; -- of those with a time of their own
    oldest_not_held interval; -- whose key no other event holds
    oldest_due_attempt interval;
    with_a_time bigint;
    wal_end pg_lsn;
    slot_found boolean;
    problems text[] := '{}';
BEGIN
    IF has_function_privilege('public', 'outbox.health_with_codes(text, interval, interval, bigint, bigint)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.health_with_codes(text, interval, interval, bigint, bigint)');
    END IF;
    -- Pending: events without a time of their own, and those whose time has come.
    SELECT c.events, c.is_estimate INTO pending, pending_is_estimate FROM outbox.count_by_seq('PENDING') AS c;
    SELECT since - e.created_at INTO oldest_pending
    FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq LIMIT 1;

    -- An attempt sets available_at and last_attempted_at, a replay sets available_at back to null. So an event with both is between two
    -- attempts, whether or not the time of the next one has come.
    SELECT count(*) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           since - min(coalesce(e.first_attempted_at, e.created_at)) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at > since),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since),
           min(e.available_at) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since),
           count(*) FILTER (WHERE e.available_at <= since),
           since - min(e.available_at) FILTER (WHERE e.last_attempted_at IS NOT NULL AND e.available_at <= since)
    INTO retrying, oldest_retrying, scheduled, overdue, oldest_overdue, due, oldest_due_attempt
    FROM (
        SELECT * FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL
        ORDER BY e.available_at, e.seq LIMIT max_exact + 1
    ) AS e;
    pending := pending + overdue;
    oldest_pending := greatest(oldest_pending, since - oldest_overdue);
    -- Beyond, as many as the index has had at the last VACUUM or ANALYZE. Retries come due soon, so what is not reached is scheduled
    -- if anything that was reached is.
    scheduled_is_estimate := retrying + scheduled + overdue > max_exact;
    IF scheduled_is_estimate THEN
        SELECT greatest(c.reltuples, 0) - (retrying + scheduled + overdue) INTO with_a_time
        FROM pg_class AS c WHERE c.oid = to_regclass('outbox.events_due');
        IF with_a_time > 0 AND scheduled > 0 THEN
            scheduled := scheduled + with_a_time;
        ELSIF with_a_time > 0 AND retrying > 0 THEN
            retrying := retrying + with_a_time;
        ELSIF with_a_time > 0 THEN
            pending := pending + with_a_time;
        END IF;
        pending_is_estimate := pending_is_estimate OR scheduled + retrying = 0;
    END IF;

    SELECT c.events, c.is_estimate INTO failed, failed_is_estimate FROM outbox.count_by_seq('FAILED') AS c;
    SELECT count(*) INTO keys_held
    FROM (SELECT FROM outbox.events AS e WHERE e.holds_key LIMIT max_exact) AS e;
    -- What waits behind a held key is no sign of a stop, and must not hide one: the oldest of the rest tells. So does an attempt that is due.
    IF keys_held = 0 THEN
        oldest_not_held := oldest_pending;
    ELSIF greatest(oldest_pending, oldest_due_attempt) > max_pending_age THEN
        SELECT since - min(coalesce(e.available_at, e.created_at)) FILTER (WHERE e.available_at IS NULL OR e.last_attempted_at IS NULL),
               since - min(e.available_at) FILTER (WHERE e.last_attempted_at IS NOT NULL)
        INTO oldest_not_held, oldest_due_attempt
        FROM (
            (SELECT * FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NULL
             ORDER BY e.seq LIMIT max_exact)
            UNION ALL
            (SELECT * FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at <= since
             ORDER BY e.available_at, e.seq LIMIT max_exact)
        ) AS e
        WHERE NOT EXISTS (
            SELECT FROM outbox.events AS h
            WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
              AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
        );
    END IF;

    IF pg_is_in_recovery() THEN
        unseen := 'this server is a standby: the slot and the relay are on its primary';
    ELSE
        BEGIN
            wal_end := pg_current_wal_lsn();
            SELECT true, s.active, s.wal_status, pg_wal_lsn_diff(wal_end, s.restart_lsn), s.safe_wal_size,
                   pg_wal_lsn_diff(greatest(wal_end, s.confirmed_flush_lsn), s.confirmed_flush_lsn) -- the slot may have moved on since
            INTO slot_found, slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
            FROM pg_replication_slots AS s
            WHERE s.slot_name = health_with_codes.slot AND s.database = current_database() AND NOT s.temporary;
        EXCEPTION WHEN insufficient_privilege THEN
            unseen := format('the slot: %s (the owner of outbox.health() lacks that right)', sqlerrm);
        END;
    END IF;

    codes := '{}';
    IF unseen IS NULL AND slot_found IS NULL THEN
        codes := codes || 'slot_missing'::text;
        problems := problems || format('this database has no replication slot "%s", so no relay is at work', health_with_codes.slot);
    END IF;
    IF slot_wal_status = 'lost' THEN
        codes := codes || 'slot_lost'::text;
        problems := problems || format('PostgreSQL has given up the slot "%s" (no event is lost: a relay creates it again when it starts)',
            health_with_codes.slot);
    ELSIF NOT slot_active THEN
        codes := codes || 'slot_not_read'::text;
        problems := problems || format('no relay reads the slot "%s"', health_with_codes.slot);
    ELSIF slot_found AND slot_behind_bytes IS NULL THEN
        codes := codes || 'slot_not_ready'::text;
        problems := problems || format('a relay makes the slot "%s", and waits for older transactions to end', health_with_codes.slot);
    END IF;
    IF oldest_not_held > max_pending_age THEN
        codes := codes || 'events_do_not_leave'::text;
        problems := problems || format('events do not leave: %s pending, the oldest %sfor %s%s',
            concat(CASE WHEN pending_is_estimate THEN 'about ' END, pending),
            CASE WHEN keys_held > 0 THEN 'without a held key ' END,
            substring(to_char(oldest_not_held, units) FROM two_of_them),
            CASE WHEN keys_held > 0 THEN format(' (held keys: %s)', keys_held) END);
    ELSIF oldest_due_attempt > max_pending_age THEN
        codes := codes || 'events_do_not_leave'::text;
        problems := problems || format('events do not leave: an attempt has been due for %s (retrying: %s)',
            substring(to_char(oldest_due_attempt, units) FROM two_of_them),
            concat(CASE WHEN scheduled_is_estimate THEN 'about ' END, retrying));
    ELSIF oldest_pending > max_pending_age THEN
        IF pending_is_estimate OR due > max_exact THEN
            unseen := coalesce(unseen, 'the oldest ' || max_exact || ' events wait behind held keys, and no later ones were looked at');
        END IF;
        codes := codes || 'events_wait'::text;
        problems := problems || format('%s wait, the oldest for %s (held keys: %s)',
            concat(CASE WHEN pending_is_estimate THEN 'about ' END, pending),
            substring(to_char(oldest_pending, units) FROM two_of_them), keys_held);
    END IF;
    IF slot_wal_status = 'unreserved' THEN
        codes := codes || 'slot_nearly_lost'::text;
        problems := problems || format('the slot "%s" is about to be lost: it keeps %s of WAL, more than max_slot_wal_keep_size',
            health_with_codes.slot, pg_size_pretty(slot_kept_bytes));
    ELSIF slot_safe_bytes < slot_kept_bytes / 4 THEN -- a fifth of what it may keep
        codes := codes || 'slot_nearly_lost'::text;
        problems := problems || format('the slot "%s" is about to be lost: it keeps %s of WAL, and may keep %s more',
            health_with_codes.slot, pg_size_pretty(slot_kept_bytes), pg_size_pretty(slot_safe_bytes));
    ELSIF slot_kept_bytes > max_kept_bytes AND slot_wal_status <> 'lost' THEN
        codes := codes || 'slot_keeps_wal'::text;
        problems := problems || format('the slot "%s" keeps %s of WAL', health_with_codes.slot, pg_size_pretty(slot_kept_bytes));
    END IF;
    IF failed > max_failed THEN
        codes := codes || 'events_failed'::text;
        problems := problems || format('%s failed', concat(CASE WHEN failed_is_estimate THEN 'about ' END, failed));
    END IF;
    IF oldest_retrying > max_retrying_age THEN
        codes := codes || 'events_retried'::text;
        problems := problems || format('%s are tried again and again, the oldest for %s',
            concat(CASE WHEN scheduled_is_estimate THEN 'about ' END, retrying),
            substring(to_char(oldest_retrying, units) FROM two_of_them));
    END IF;
    reason := nullif(array_to_string(problems, '; '), '');
    healthy := CASE WHEN reason IS NOT NULL THEN false WHEN unseen IS NULL THEN true END;
END
$$;
COMMENT ON FUNCTION outbox.health_with_codes(text, interval, interval, bigint, bigint) IS
    'One row to alert on: whether events flow, and if not why, in a sentence and in codes.';

-- The same without codes: earlier relays, and views of yours, keep to these columns.
CREATE OR REPLACE FUNCTION outbox.health(
    slot             text     DEFAULT 'outbox',
    max_pending_age  interval DEFAULT '1 min',
    max_retrying_age interval DEFAULT '10 min',
    max_failed       bigint   DEFAULT 0,
    max_kept_bytes   bigint   DEFAULT 1073741824, -- 1 GiB
    OUT healthy               boolean,
    OUT reason                text,
    OUT unseen                text,
    OUT pending               bigint,
    OUT pending_is_estimate   boolean,
    OUT oldest_pending        interval,
    OUT retrying              bigint,
    OUT oldest_retrying       interval,
    OUT scheduled             bigint,
    OUT scheduled_is_estimate boolean, -- and retrying
    OUT failed                bigint,
    OUT failed_is_estimate    boolean,
    OUT keys_held             bigint,
    OUT slot_active           boolean,
    OUT slot_wal_status       text,
    OUT slot_kept_bytes       bigint,
    OUT slot_safe_bytes       bigint,
    OUT slot_behind_bytes     bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER -- for a role that may call this one only
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF has_function_privilege('public', 'outbox.health(text, interval, interval, bigint, bigint)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.health(text, interval, interval, bigint, bigint)');
    END IF;
    SELECT h.healthy, h.reason, h.unseen, h.pending, h.pending_is_estimate, h.oldest_pending, h.retrying, h.oldest_retrying, h.scheduled,
        h.scheduled_is_estimate, h.failed, h.failed_is_estimate, h.keys_held, h.slot_active, h.slot_wal_status, h.slot_kept_bytes,
        h.slot_safe_bytes, h.slot_behind_bytes
    INTO healthy, reason, unseen, pending, pending_is_estimate, oldest_pending, retrying, oldest_retrying, scheduled,
        scheduled_is_estimate, failed, failed_is_estimate, keys_held, slot_active, slot_wal_status, slot_kept_bytes,
        slot_safe_bytes, slot_behind_bytes
    FROM outbox.health_with_codes(health.slot, health.max_pending_age, health.max_retrying_age, health.max_failed, health.max_kept_bytes) AS h;
END
$$;
COMMENT ON FUNCTION outbox.health(text, interval, interval, bigint, bigint) IS
    'One row to alert on: whether events flow, and if not why.';
