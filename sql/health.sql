-- Answers "do events flow?" in one row, to alert on:
--
--     SELECT healthy, reason FROM outbox.health();
--     SELECT * FROM outbox.health(max_pending_age => '5 min', max_failed => 100);
--
-- healthy is false if anything is wrong, and reason then says what, the worst first. It is null if nothing is known to be wrong and
-- something could not be seen: unseen says what. What the relay's own process knows, such as a broker that is away, is not in the
-- database: it shows here as events that grow old.
--
-- Whatever is in the table, at most some ten thousand entries of each partial index are read. Counts are exact up to 10,000, and an
-- estimate beyond.
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
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    max_exact CONSTANT integer := 10000;
    since CONSTANT timestamptz := clock_timestamp();
    overdue bigint;
    oldest_overdue timestamptz;
    with_a_time bigint;
    wal_end pg_lsn;
    slot_found boolean;
    problems text[];
BEGIN
    IF has_function_privilege('public', 'outbox.health(text, interval, interval, bigint, bigint)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.health(text, interval, interval, bigint, bigint)');
    END IF;
    -- Owed now: events without a time of their own, and those whose time has come.
    SELECT c.events, c.is_estimate INTO pending, pending_is_estimate FROM outbox.count_by_seq('PENDING') AS c;
    SELECT since - e.created_at INTO oldest_pending
    FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq LIMIT 1;

    -- An attempt sets available_at and last_attempted_at, a replay sets available_at back to null. So an event with both is between two
    -- attempts, whether or not the time of the next one has come.
    SELECT count(*) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           since - min(coalesce(e.first_attempted_at, e.created_at)) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at > since),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since),
           min(e.available_at) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since)
    INTO retrying, oldest_retrying, scheduled, overdue, oldest_overdue
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

    IF pg_is_in_recovery() THEN
        unseen := 'this server is a standby: the slot and the relay are on its primary';
    ELSE
        BEGIN
            wal_end := pg_current_wal_lsn();
            SELECT true, s.active, s.wal_status, pg_wal_lsn_diff(wal_end, s.restart_lsn), s.safe_wal_size,
                   pg_wal_lsn_diff(wal_end, s.confirmed_flush_lsn)
            INTO slot_found, slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
            FROM pg_replication_slots AS s
            WHERE s.slot_name = health.slot AND s.database = current_database() AND NOT s.temporary;
        EXCEPTION WHEN insufficient_privilege THEN
            unseen := format('the slot: %s (the owner of outbox.health() lacks that right)', sqlerrm);
        END;
    END IF;

    problems := array_remove(ARRAY[
        CASE WHEN unseen IS NULL AND slot_found IS NULL
            THEN format('this database has no replication slot "%s", so no relay is at work', health.slot) END,
        CASE WHEN slot_wal_status = 'lost'
            THEN format('PostgreSQL has given up the slot "%s" (no event is lost: a relay creates it again when it starts)', health.slot)
            WHEN NOT slot_active
            THEN format('no relay reads the slot "%s"', health.slot)
            WHEN slot_found AND slot_behind_bytes IS NULL
            THEN format('a relay makes the slot "%s", and waits for older transactions to end', health.slot) END,
        CASE WHEN oldest_pending > max_pending_age
            THEN format(CASE keys_held WHEN 0 THEN 'events do not leave: %s pending, the oldest for %s'
                    ELSE '%s wait, the oldest for %s, perhaps behind one of %s that hold their keys' END,
                concat(CASE WHEN pending_is_estimate THEN 'about ' END, pending), date_trunc('second', oldest_pending), keys_held) END,
        CASE WHEN slot_wal_status = 'unreserved'
            THEN format('the slot "%s" is about to be lost: it keeps %s of WAL, more than max_slot_wal_keep_size',
                health.slot, pg_size_pretty(slot_kept_bytes))
            WHEN slot_safe_bytes < slot_kept_bytes / 4 -- a fifth of what it may keep
            THEN format('the slot "%s" is about to be lost: it keeps %s of WAL, and may keep %s more',
                health.slot, pg_size_pretty(slot_kept_bytes), pg_size_pretty(slot_safe_bytes))
            WHEN slot_kept_bytes > max_kept_bytes AND slot_wal_status <> 'lost'
            THEN format('the slot "%s" keeps %s of WAL', health.slot, pg_size_pretty(slot_kept_bytes)) END,
        CASE WHEN failed > max_failed
            THEN format('%s failed', concat(CASE WHEN failed_is_estimate THEN 'about ' END, failed)) END,
        CASE WHEN oldest_retrying > max_retrying_age
            THEN format('%s are refused again and again, the oldest for %s',
                concat(CASE WHEN scheduled_is_estimate THEN 'about ' END, retrying), date_trunc('second', oldest_retrying)) END
    ], NULL);
    reason := nullif(array_to_string(problems, '; '), '');
    healthy := CASE WHEN reason IS NOT NULL THEN false WHEN unseen IS NULL THEN true END;
END
$$;
COMMENT ON FUNCTION outbox.health(text, interval, interval, bigint, bigint) IS
    'One row to alert on: whether events flow, and if not why.';
