-- The relay's write-back: one verdict per event, in one statement for the whole batch.
--
-- SENT and FAILED finish an event; PENDING records an attempt that will be repeated. Only rows that are still PENDING
-- change. Returned are the ids that cannot be seen yet: a walsender may stream a commit a moment before other sessions
-- see it, so the relay tries those again. An event finished by someone else is no news.
--
-- Each row is found by its primary key. The settings rule out the plans that read the whole table, which a table without
-- fresh statistics invites; a custom plan, made for this very batch, costs a tenth of a millisecond and cannot outlive
-- the table size it was made for. Rows are taken in one order, so that two settles cannot deadlock.
CREATE FUNCTION outbox.settle(ids uuid[], statuses outbox.status[], errors text[]) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    settled bigint;
BEGIN
    IF cardinality(ids) IS DISTINCT FROM cardinality(statuses) OR cardinality(ids) IS DISTINCT FROM cardinality(errors) THEN
        RAISE EXCEPTION 'ids, statuses and errors must have one element per event'
            USING ERRCODE = 'array_subscript_error',
                  DETAIL = format('They have %s, %s and %s.', cardinality(ids), cardinality(statuses), cardinality(errors));
    END IF;

    UPDATE outbox.events AS e
    SET status = verdict.status,
        attempts = e.attempts + 1,
        last_error = CASE WHEN verdict.status <> 'SENT' THEN verdict.error END,
        last_attempted_at = now(),
        processed_at = CASE WHEN verdict.status <> 'PENDING' THEN now() END
    FROM (
        SELECT * FROM unnest(ids, statuses, errors) AS v (id, status, error) ORDER BY v.id
    ) AS verdict
    WHERE e.id = verdict.id
      -- Not "= 'PENDING'": the planner would take that for an invitation to scan events_pending once per event.
      AND e.status NOT IN ('SENT', 'FAILED');
    GET DIAGNOSTICS settled = ROW_COUNT;

    IF settled < cardinality(ids) THEN
        -- This statement may see more than the one above did: a row that came in between is PENDING and was not
        -- attempted in this transaction.
        RETURN QUERY
            SELECT v.id FROM unnest(ids) AS v (id)
            WHERE NOT EXISTS (
                SELECT FROM outbox.events AS e
                WHERE e.id = v.id AND (e.status IN ('SENT', 'FAILED') OR e.last_attempted_at = now())
            );
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.settle(uuid[], outbox.status[], text[]) IS
    'Relay: writes verdicts back; returns the ids it cannot see yet.';
