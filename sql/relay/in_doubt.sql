-- What a relay keeps for its successor, whose broker keeps a log (tables/in_doubt.sql). Times are given as an age, since the clock of the
-- relay may be another one.

-- Keeps events whose verdicts are late, and forgets those that have got theirs. floor_ago is the age of the last verdict before a session
-- that still works on what earlier ones have left; null: it has done so.
CREATE OR REPLACE FUNCTION outbox.keep_in_doubt(
    publisher text, ids uuid[], replays integer[], microseconds_ago bigint[], delivered boolean[], floor_ago bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.keep_in_doubt(text, uuid[], integer[], bigint[], boolean[], bigint)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.keep_in_doubt(text, uuid[], integer[], bigint[], boolean[], bigint)');
    END IF;
    DELETE FROM outbox.in_doubt AS d
    WHERE d.replays < 0 AND (d.publisher <> keep_in_doubt.publisher OR floor_ago IS NULL)
       OR (d.publisher, d.id, d.replays) IN (
           SELECT o.publisher, o.id, o.replays FROM outbox.in_doubt AS o LEFT JOIN outbox.events AS e ON e.id = o.id
           WHERE o.replays >= 0 AND CASE
               WHEN e.id IS NULL THEN o.kept_at < clock_timestamp() - interval '1 day' -- its row may not be visible yet
               ELSE e.status <> 'PENDING' OR e.replays <> o.replays END);
    INSERT INTO outbox.in_doubt AS d (publisher, id, replays, since, delivered)
    SELECT keep_in_doubt.publisher, k.id, k.replays, greatest('epoch', clock_timestamp() - k.ago * interval '1 microsecond'), k.delivered
    FROM (
        SELECT * FROM unnest(ids, keep_in_doubt.replays, microseconds_ago, keep_in_doubt.delivered)
        UNION ALL
        SELECT '00000000-0000-0000-0000-000000000000', -1, floor_ago, false WHERE floor_ago IS NOT NULL
    ) AS k (id, replays, ago, delivered)
    ON CONFLICT ON CONSTRAINT in_doubt_pkey DO UPDATE SET since = least(d.since, excluded.since), delivered = excluded.delivered;
END
$$;
COMMENT ON FUNCTION outbox.keep_in_doubt(text, uuid[], integer[], bigint[], boolean[], bigint) IS
    'Relay: keeps events that the broker may have and whose verdicts are late.';

-- Returns the floor, if there is one, and the newest of the events that were kept and have no verdict yet.
CREATE OR REPLACE FUNCTION outbox.events_in_doubt(publisher text, max_rows integer)
RETURNS TABLE (id uuid, replays integer, microseconds_ago bigint, delivered boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.events_in_doubt(text, integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.events_in_doubt(text, integer)');
    END IF;
    RETURN QUERY
        SELECT d.id, d.replays, (extract(epoch FROM clock_timestamp() - d.since) * 1000000)::bigint, d.delivered
        FROM outbox.in_doubt AS d LEFT JOIN outbox.events AS e ON e.id = d.id
        WHERE d.publisher = events_in_doubt.publisher
          AND (d.replays < 0 OR e.id IS NULL OR e.status = 'PENDING' AND e.replays = d.replays)
        ORDER BY d.replays < 0 DESC, d.since DESC
        LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION outbox.events_in_doubt(text, integer) IS 'Relay: events that the broker may have and whose verdicts are late.';
