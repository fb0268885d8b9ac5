-- Returns the holders of keys: the events for which later events of their keys wait.
CREATE OR REPLACE FUNCTION outbox.key_holders(max_rows integer)
RETURNS TABLE (id uuid, aggregate_type text, aggregate_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.key_holders(integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.key_holders(integer)');
    END IF;
    RETURN QUERY
        SELECT e.id, e.aggregate_type, e.aggregate_id
        FROM outbox.events AS e
        WHERE e.holds_key AND e.aggregate_id IS NOT NULL
        LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION outbox.key_holders(integer) IS 'Relay: events that hold their keys.';
