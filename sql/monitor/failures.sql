-- Returns what has failed, by topic and error: the commonest first. Reads the latest max_rows failed events, so that it stays quick if
-- millions have failed; if failed adds up to max_rows, there may be more.
CREATE OR REPLACE FUNCTION outbox.failures(max_rows integer DEFAULT 10000)
RETURNS TABLE (
    topic text, last_error text, failed bigint, keys_held bigint, first_created_at timestamptz, last_attempted_at timestamptz,
    example_id uuid
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF has_function_privilege('public', 'outbox.failures(integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.failures(integer)');
    END IF;
    IF max_rows < 0 THEN
        RAISE EXCEPTION 'max_rows cannot be negative, and is %', max_rows
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the latest 10,000 failed events.';
    END IF;
    RETURN QUERY
        SELECT e.topic, e.last_error, count(*), count(*) FILTER (WHERE e.holds_key), min(e.created_at), max(e.last_attempted_at),
               (array_agg(e.id ORDER BY e.seq DESC))[1]
        FROM (SELECT * FROM outbox.events WHERE status = 'FAILED' ORDER BY seq DESC LIMIT max_rows) AS e
        GROUP BY e.topic, e.last_error
        ORDER BY count(*) DESC, e.topic, e.last_error;
END
$$;
COMMENT ON FUNCTION outbox.failures(integer) IS 'What has failed, by topic and error; of the latest max_rows failed events.';
