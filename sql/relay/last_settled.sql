-- Returns a time from which on all was published that the broker may have without a verdict of it in the table, but for what was in flight
-- when the last verdict was written, and for what relays have kept (in_doubt.sql). A relay whose broker keeps a log reads from there what its
-- predecessor has published.
--
-- It is the newest verdict found, or the oldest PENDING event, if that is later: numbers are given in the order of time, so none was
-- published before the lowest was made. An earlier time makes the relay read more, and a later one would have it publish twice. So a
-- short look is enough: some thousands of rows, as in sequence.sql. Without an event that is PENDING it is the present.
CREATE OR REPLACE FUNCTION outbox.last_settled() RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    few CONSTANT integer := 1000;
    oldest outbox.events; -- the one with the lowest number of those that are PENDING
    deferred record;
BEGIN
    IF has_function_privilege('public', 'outbox.last_settled()'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.last_settled()');
    END IF;
    SELECT count(*) AS number, min(d.seq) AS seq, min(d.created_at) AS created_at INTO deferred
    FROM (SELECT e.seq, e.created_at FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL
          ORDER BY e.available_at, e.seq LIMIT few) AS d;
    SELECT e.id, e.seq, e.created_at INTO oldest.id, oldest.seq, oldest.created_at FROM outbox.events AS e
    WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq LIMIT 1;
    IF oldest.seq IS NULL AND deferred.number = 0 THEN
        RETURN clock_timestamp();
    END IF;
    RETURN greatest(
        CASE WHEN deferred.number < few THEN least(oldest.created_at, deferred.created_at) END,
        (SELECT max(n.processed_at) FROM (
            SELECT e.status, e.processed_at FROM outbox.events AS e ORDER BY e.id DESC LIMIT few
        ) AS n WHERE n.status = 'SENT'),
        (SELECT max(b.processed_at) FROM (
            SELECT e.status, e.processed_at FROM outbox.events AS e WHERE e.id < oldest.id ORDER BY e.id DESC LIMIT few
        ) AS b WHERE b.status = 'SENT'));
END
$$;
COMMENT ON FUNCTION outbox.last_settled() IS 'Relay: time of the last verdict, from which a broker''s log is read back; null: nothing tells.';
