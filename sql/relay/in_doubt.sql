-- What a relay keeps for its successor, whose broker keeps a log (tables/in_doubt.sql). Times are given as an age, since the clock of the
-- relay may be another one.

-- Keeps events whose verdicts are late, and forgets those that have got theirs. settled_ago is the age of the verdict from which
-- last_settled() counts at the least, as long as a session works on what earlier sessions have left; null: there is none.
CREATE OR REPLACE FUNCTION outbox.keep_in_doubt(
    ids uuid[], replays integer[], microseconds_ago bigint[], delivered boolean[], settled_ago bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.keep_in_doubt(uuid[], integer[], bigint[], boolean[], bigint)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.keep_in_doubt(uuid[], integer[], bigint[], boolean[], bigint)');
    END IF;
    -- A row that is missing may not be visible yet.
    DELETE FROM outbox.in_doubt AS d
    WHERE d.replays >= 0
      AND CASE WHEN EXISTS (SELECT FROM outbox.events AS e WHERE e.id = d.id)
          THEN NOT EXISTS (SELECT FROM outbox.events AS e WHERE e.id = d.id AND e.status = 'PENDING' AND e.replays = d.replays)
          ELSE d.since < clock_timestamp() - interval '1 day' END
       OR d.replays < 0 AND settled_ago IS NULL;
    INSERT INTO outbox.in_doubt AS d (id, replays, since, delivered)
    SELECT k.id, k.replays, greatest('epoch', clock_timestamp() - k.ago * interval '1 microsecond'), k.delivered
    FROM unnest(ids, keep_in_doubt.replays, microseconds_ago, keep_in_doubt.delivered) AS k (id, replays, ago, delivered)
    UNION ALL
    SELECT '00000000-0000-0000-0000-000000000000', -1, greatest('epoch', clock_timestamp() - settled_ago * interval '1 microsecond'), true
    WHERE settled_ago IS NOT NULL
    ON CONFLICT ON CONSTRAINT in_doubt_pkey DO UPDATE SET since = excluded.since, delivered = excluded.delivered;
END
$$;
COMMENT ON FUNCTION outbox.keep_in_doubt(uuid[], integer[], bigint[], boolean[], bigint) IS
    'Relay: keeps events that the broker may have and whose verdicts are late.';

-- Returns the newest of the events that were kept and have no verdict yet.
CREATE OR REPLACE FUNCTION outbox.events_in_doubt(max_rows integer)
RETURNS TABLE (id uuid, replays integer, microseconds_ago bigint, delivered boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.events_in_doubt(integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.events_in_doubt(integer)');
    END IF;
    RETURN QUERY
        SELECT d.id, d.replays, (extract(epoch FROM clock_timestamp() - d.since) * 1000000)::bigint, d.delivered
        FROM outbox.in_doubt AS d LEFT JOIN outbox.events AS e ON e.id = d.id
        WHERE d.replays >= 0 AND (e.id IS NULL OR e.status = 'PENDING' AND e.replays = d.replays)
        ORDER BY d.since DESC
        LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION outbox.events_in_doubt(integer) IS 'Relay: events that the broker may have and whose verdicts are late.';
