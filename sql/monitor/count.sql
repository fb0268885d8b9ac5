-- Counts the events that have failed, or those that are pending and have no time of their own, at a cost that does not grow with them:
-- exactly up to 10,000, then by a sample. A hundred short ranges of seq, evenly spread over the rest, say how dense these events
-- lie. (The planner's statistics are as old as the last ANALYZE, which comes long after an outage has begun.)
--
-- The condition is written out in the statements, or the planner would not see that the partial index fits.
CREATE OR REPLACE FUNCTION outbox.count_by_seq(wanted outbox.status, OUT events bigint, OUT is_estimate boolean)
LANGUAGE plpgsql STABLE -- the planner's settings are those of health(), which calls it
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    max_exact CONSTANT integer := 10000;
    ranges CONSTANT integer := 100;
    condition CONSTANT text := CASE wanted
        WHEN 'PENDING' THEN 'status = ''PENDING'' AND available_at IS NULL'
        WHEN 'FAILED' THEN 'status = ''FAILED'''
    END;
    reached bigint;
    distance numeric; -- from the start of one range to that of the next
    length bigint;
    density numeric;
BEGIN
    EXECUTE format('SELECT count(*), max(seq) FROM (
        SELECT seq FROM outbox.events WHERE %s ORDER BY seq LIMIT %s) AS oldest', condition, max_exact + 1)
    INTO events, reached;
    is_estimate := events > max_exact;
    IF is_estimate THEN
        EXECUTE format('SELECT (seq - $1)::numeric / $2 FROM outbox.events WHERE %s ORDER BY seq DESC LIMIT 1', condition)
        INTO distance USING reached, ranges;
        length := least(100, ceil(distance));
        EXECUTE format('SELECT sum(found.events) / ($2 * $4)
            FROM generate_series(0, $2 - 1) AS number
            CROSS JOIN LATERAL (
                SELECT count(*) AS events FROM outbox.events
                WHERE %s AND seq > $1 + floor(number * $3)::bigint AND seq <= $1 + floor(number * $3)::bigint + $4
            ) AS found', condition)
        INTO density USING reached, ranges, distance, greatest(length, 1);
        events := events + round(density * distance * ranges);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.count_by_seq(outbox.status) IS
    'Internal to health(): how many events are FAILED, or PENDING without a time; exact up to 10,000.';
