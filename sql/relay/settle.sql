-- The relay's write-back: one verdict per event, in one statement for the whole batch.
--
-- SENT and FAILED finish an event; PENDING records an attempt that will be repeated in retry_ms milliseconds. Without an error
-- the attempt does not count: the destination took nothing, which is no event's fault. Where holds is true, later events with
-- the event's key wait for it. Only rows that are still PENDING change.
--
-- Returns the events that it has not written, each with the status that it has:
-- null: it cannot be seen yet. A walsender may stream a commit a moment before other sessions see it.
-- PENDING: it could not be written just now. With skip_locked, rows that someone else has locked are passed over, so that
-- they delay no other verdict.
-- SENT, FAILED: it was to be tried again, or to hold its key, but someone else has finished it. (An event that was to be
-- finished, and is, is not returned.)
--
-- Each row is found by its primary key. The settings rule out the plans that read the whole table, which a table without
-- fresh statistics invites; a custom plan, made for this very batch, costs a tenth of a millisecond and cannot outlive
-- the table size it was made for. Rows are taken in one order, so that two settles cannot deadlock.
CREATE OR REPLACE FUNCTION outbox.settle(
    ids uuid[], statuses outbox.status[], errors text[],
    retry_ms integer[] DEFAULT '{}', holds boolean[] DEFAULT '{}', skip_locked boolean DEFAULT false
) RETURNS TABLE (id uuid, status outbox.status)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    left_over uuid[] := ids;
    written bigint;
    settled bigint := 0;
BEGIN
    IF has_function_privilege('public', 'outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean)');
    END IF;
    IF cardinality(ids) IS DISTINCT FROM cardinality(statuses) OR cardinality(ids) IS DISTINCT FROM cardinality(errors) THEN
        RAISE EXCEPTION 'ids, statuses and errors must have one element per event'
            USING ERRCODE = 'array_subscript_error',
                  DETAIL = format('They have %s, %s and %s.', cardinality(ids), cardinality(statuses), cardinality(errors));
    END IF;
    -- Nearly every batch is like this. The extension writes as much of it as it can without a statement, and returns the rest.
    IF cardinality(ids) > 0 AND NOT skip_locked AND 'SENT' = ALL (statuses) THEN
        left_over := outbox.settle_sent(ids);
        settled := cardinality(ids) - cardinality(left_over);
    END IF;
    IF skip_locked AND cardinality(left_over) > 0 THEN
        left_over := ARRAY(
            SELECT e.id FROM outbox.events AS e
            WHERE e.id = ANY (left_over)
            ORDER BY e.id
            FOR NO KEY UPDATE SKIP LOCKED
        );
    END IF;
    IF cardinality(left_over) > 0 THEN
        UPDATE outbox.events AS e
        SET status = verdict.status,
            attempts = e.attempts + CASE WHEN verdict.status = 'PENDING' AND verdict.error IS NULL THEN 0 ELSE 1 END,
            holds_key = coalesce(verdict.holds, false),
            available_at = CASE WHEN verdict.status = 'PENDING'
                THEN now() + make_interval(secs => verdict.retry_ms / 1000.0) ELSE e.available_at END,
            last_error = CASE verdict.status WHEN 'PENDING' THEN coalesce(verdict.error, e.last_error) WHEN 'FAILED' THEN verdict.error END,
            first_attempted_at = CASE WHEN verdict.status = 'PENDING' AND verdict.error IS NOT NULL
                THEN coalesce(e.first_attempted_at, now()) ELSE e.first_attempted_at END,
            last_attempted_at = now(),
            processed_at = CASE WHEN verdict.status <> 'PENDING' THEN now() END
        FROM (
            SELECT * FROM unnest(ids, statuses, errors, retry_ms, holds) AS v (id, status, error, retry_ms, holds)
            WHERE cardinality(left_over) = cardinality(ids) OR v.id = ANY (left_over)
            ORDER BY v.id
        ) AS verdict
        WHERE e.id = verdict.id
          -- Not "= 'PENDING'": the planner would take that for an invitation to scan events_pending once per event.
          AND e.status NOT IN ('SENT', 'FAILED');
        GET DIAGNOSTICS written = ROW_COUNT;
        settled := settled + written;
    END IF;

    IF settled < cardinality(ids) THEN
        -- This statement may see more than the one above did: a row that came in between is PENDING and was not
        -- attempted in this transaction.
        RETURN QUERY
            SELECT v.id, e.status
            FROM unnest(ids, statuses, holds) AS v (id, status, holds)
            LEFT JOIN outbox.events AS e ON e.id = v.id
            WHERE e.id IS NULL
               OR e.status = 'PENDING' AND e.last_attempted_at IS DISTINCT FROM now()
               OR e.status <> 'PENDING' AND e.last_attempted_at IS DISTINCT FROM now() AND (v.status = 'PENDING' OR v.holds);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean) IS
    'Relay: writes verdicts back; returns the events that it could not write.';
