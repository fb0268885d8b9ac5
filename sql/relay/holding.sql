-- Returns the keys that are held back, and by which events: one row for each event that holds its key.
CREATE OR REPLACE FUNCTION outbox.holding(max_rows integer)
RETURNS TABLE (id uuid, aggregate_type text, aggregate_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.holding(integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.holding(integer)');
    END IF;
    RETURN QUERY
        SELECT e.id, e.aggregate_type, e.aggregate_id
        FROM outbox.events AS e
        WHERE e.holds_key AND e.aggregate_id IS NOT NULL
        LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION outbox.holding(integer) IS 'Relay: events that hold their key back.';
