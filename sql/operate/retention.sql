-- Retention: finished events are deleted once they are old, page range after page range, in short transactions. That needs no index,
-- takes no lock that an emitter waits for, and may end and begin again at any time. VACUUM makes the room free for new events.

-- Whether an event has been finished for so long that it may go: SENT before sent_before, FAILED before failed_before. Null keeps them.
-- The planner makes it a part of the query that calls it.
CREATE OR REPLACE FUNCTION outbox.is_old(
    status outbox.status, finished_at timestamptz, sent_before timestamptz, failed_before timestamptz
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(status = 'SENT' AND finished_at < sent_before OR status = 'FAILED' AND finished_at < failed_before, false);
COMMENT ON FUNCTION outbox.is_old(outbox.status, timestamptz, timestamptz, timestamptz) IS
    'Internal to delete_finished(): whether an event has been finished for long enough.';

-- Deletes finished events one by one, and says what became of each: a refusal, by a foreign key that refers to the event or by a
-- trigger, keeps that event alone. It needs the owner's rights.
CREATE OR REPLACE FUNCTION outbox.delete_one_by_one(ids uuid[], status outbox.status DEFAULT NULL) -- null: either
RETURNS TABLE (
    event_id uuid,
    outcome  text, -- deleted, or why not: pending, holding (its key), locked (by someone else), refused, absent (or of another status)
    because  text  -- what PostgreSQL said to a refused one
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '250ms' -- less than deadlock_timeout, so that nobody's transaction is cancelled because of this one
SET jit = off -- a table that refers to this one without an index is read as a whole, a plan that seems dear enough to compile
AS $$
DECLARE
    found_status outbox.status;
    holds boolean;
BEGIN
    IF has_function_privilege('public', 'outbox.delete_one_by_one(uuid[], outbox.status)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.delete_one_by_one(uuid[], outbox.status)');
    END IF;
    FOREACH event_id IN ARRAY ids LOOP
        because := NULL;
        BEGIN
            SELECT e.status, e.holds_key INTO found_status, holds
            FROM ONLY outbox.events AS e WHERE e.id = event_id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM ONLY outbox.events AS e WHERE e.id = event_id;
                outcome := CASE WHEN FOUND THEN 'locked' ELSE 'absent' END;
            ELSIF found_status = 'PENDING' THEN
                outcome := 'pending';
            ELSIF found_status <> delete_one_by_one.status THEN
                outcome := 'absent';
            ELSIF holds THEN
                outcome := 'holding';
            ELSE
                DELETE FROM ONLY outbox.events AS e WHERE e.id = event_id;
                outcome := CASE WHEN FOUND THEN 'deleted' ELSE 'refused' END;
                because := CASE outcome WHEN 'refused' THEN 'a trigger on outbox.events returned null' END;
            END IF;
        EXCEPTION WHEN OTHERS OR assert_failure THEN
            outcome := 'refused';
            because := sqlerrm;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION outbox.delete_one_by_one(uuid[], outbox.status) IS
    'Internal to delete_finished() and delete_events(): deletes with the owner''s rights.';

-- The part of delete_finished() that needs the owner's rights.
--
-- What is PENDING stays, and so does what holds its key, however old: the events behind it wait for it. A row that someone else has
-- locked is passed over, and one whose deletion is refused is kept and told of. Neither keeps the others: when the statement for all
-- of them has failed, one is tried after the other.
CREATE OR REPLACE FUNCTION outbox.delete_pages(
    sent_before timestamptz, failed_before timestamptz, from_page bigint, pages integer,
    OUT deleted         bigint,
    OUT holding         bigint,      -- old, but they hold their keys
    OUT locked          bigint,      -- old, but someone else had them locked
    OUT refused         bigint,      -- old, but their deletion was refused
    OUT refused_id      uuid,        -- one of these
    OUT refused_because text,        -- what PostgreSQL said to that
    OUT oldest_sent     timestamptz, -- when the oldest SENT event was finished that these pages still have
    OUT oldest_failed   timestamptz, -- the same of FAILED ones that hold no key
    OUT table_pages     bigint       -- how many pages the table has
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '250ms' -- less than deadlock_timeout, so that nobody's transaction is cancelled because of this one
SET enable_seqscan = off -- whatever the table was like when the plan was made
SET jit = off -- a table that refers to this one without an index is read as a whole, a plan that seems dear enough to compile
AS $$
DECLARE
    last_page CONSTANT bigint := 4294967295;
    first tid;
    behind tid;
    old_ids uuid[];
    left_over_id uuid;
    left_over bigint;
    has_failed boolean := false;
BEGIN
    IF has_function_privilege('public', 'outbox.delete_pages(timestamptz, timestamptz, bigint, integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.delete_pages(timestamptz, timestamptz, bigint, integer)');
    END IF;
    IF from_page IS NULL OR pages IS NULL OR from_page NOT BETWEEN 0 AND last_page OR pages < 1 THEN
        RAISE EXCEPTION 'from_page and pages must say where to look'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('They are %s and %s.', coalesce(from_page::text, 'null'), coalesce(pages::text, 'null')),
                  HINT = 'Pages are counted from 0. To look at the whole table: CALL outbox.maintain(retention => ''30 days'');';
    END IF;
    first := format('(%s,0)', from_page)::tid;
    behind := format('(%s,0)', least(from_page + pages, last_page))::tid;
    deleted := 0;
    refused := 0;
    BEGIN
        DELETE FROM ONLY outbox.events AS e
        WHERE e.ctid >= first AND e.ctid < behind
          AND NOT e.holds_key AND outbox.is_old(e.status, coalesce(e.processed_at, e.created_at), sent_before, failed_before);
        GET DIAGNOSTICS deleted = ROW_COUNT;
    EXCEPTION WHEN OTHERS OR assert_failure THEN
        has_failed := true;
    END;
    IF has_failed THEN
        SELECT array_agg(e.id) INTO old_ids
        FROM (
            SELECT e.id FROM ONLY outbox.events AS e
            WHERE e.ctid >= first AND e.ctid < behind
              AND NOT e.holds_key AND outbox.is_old(e.status, coalesce(e.processed_at, e.created_at), sent_before, failed_before)
            FOR UPDATE SKIP LOCKED
        ) AS e;
        SELECT count(*) FILTER (WHERE d.outcome = 'deleted'), count(*) FILTER (WHERE d.outcome = 'refused'),
               (array_agg(d.event_id) FILTER (WHERE d.outcome = 'refused'))[1],
               (array_agg(d.because) FILTER (WHERE d.outcome = 'refused'))[1]
        INTO deleted, refused, refused_id, refused_because
        FROM outbox.delete_one_by_one(coalesce(old_ids, '{}')) AS d;
    END IF;

    SELECT count(*) FILTER (WHERE e.is_old AND e.holds_key), count(*) FILTER (WHERE e.is_old AND NOT e.holds_key),
           (array_agg(e.id) FILTER (WHERE e.is_old AND NOT e.holds_key))[1],
           min(e.finished_at) FILTER (WHERE e.status = 'SENT'),
           min(e.finished_at) FILTER (WHERE e.status = 'FAILED' AND NOT e.holds_key)
    INTO holding, left_over, left_over_id, oldest_sent, oldest_failed
    FROM (
        SELECT e.id, e.status, e.holds_key, f.finished_at, outbox.is_old(e.status, f.finished_at, sent_before, failed_before) AS is_old
        FROM ONLY outbox.events AS e
        CROSS JOIN LATERAL (SELECT nullif(coalesce(e.processed_at, e.created_at), 'infinity') AS finished_at) AS f
        WHERE e.ctid >= first AND e.ctid < behind
    ) AS e;
    -- The statement for all passes over no row by itself, and waits for no lock for long.
    IF NOT has_failed THEN
        refused := left_over;
        refused_id := left_over_id;
    END IF;
    IF refused > 0 THEN
        refused_because := coalesce(refused_because, 'a trigger on outbox.events returned null');
    END IF;
    locked := left_over - refused;
    table_pages := pg_relation_size('outbox.events') / current_setting('block_size')::bigint;
END
$$;
COMMENT ON FUNCTION outbox.delete_pages(timestamptz, timestamptz, bigint, integer) IS
    'Internal to delete_finished(): deletes with the owner''s rights.';

-- One step: deletes what is old in these pages.
--
-- Constraints are checked at once, because a foreign key that is checked at COMMIT would take everything back. That runs what the caller
-- has deferred until then, so it is done with the caller's rights.
CREATE OR REPLACE FUNCTION outbox.delete_finished(
    sent_before timestamptz, failed_before timestamptz, from_page bigint, pages integer,
    OUT deleted bigint, OUT holding bigint, OUT locked bigint, OUT refused bigint, OUT refused_id uuid, OUT refused_because text,
    OUT oldest_sent timestamptz, OUT oldest_failed timestamptz, OUT table_pages bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    SELECT d.* INTO deleted, holding, locked, refused, refused_id, refused_because, oldest_sent, oldest_failed, table_pages
    FROM outbox.delete_pages(sent_before, failed_before, from_page, pages) AS d;
END
$$;
COMMENT ON FUNCTION outbox.delete_finished(timestamptz, timestamptz, bigint, integer) IS
    'Deletes finished events that are old, in some pages of the table.';

-- Deletes the events with these ids that are finished, however long ago. One that holds its key stays: a release comes first. For
-- outbox-relay purge ID. Constraints are checked at once, as above.
CREATE OR REPLACE FUNCTION outbox.delete_events(ids uuid[], status outbox.status DEFAULT NULL)
RETURNS TABLE (event_id uuid, outcome text, because text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN QUERY SELECT d.* FROM outbox.delete_one_by_one(delete_events.ids, delete_events.status) AS d;
END
$$;
COMMENT ON FUNCTION outbox.delete_events(uuid[], outbox.status) IS
    'Deletes the finished events with these ids, and says of each what became of it.';

-- The whole table, for pg_cron or by hand, where no relay does it:
--
--     CALL outbox.maintain(retention => '30 days');
--
-- It commits after each step, so it cannot be called in a transaction block. Each transaction pins the search_path for itself: a
-- procedure that commits can have no such setting. The declarations are read before that, so they name types in full.
CREATE OR REPLACE PROCEDURE outbox.maintain(retention interval DEFAULT NULL, retention_failed interval DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    step_pages CONSTANT integer := 256; -- 2 MiB, some thousand events, some ten milliseconds
    since CONSTANT pg_catalog.timestamptz := pg_catalog.now();
    step pg_catalog.record;
    page bigint := 0;
    pages bigint;
    deleted bigint := 0;
    holding bigint := 0;
    locked bigint := 0;
    refused bigint := 0;
    refused_id pg_catalog.uuid;
    refused_because pg_catalog.text;
    tries integer := 60; -- half a minute
    failed_steps bigint := 0;
    failed_page bigint;
    failed_because pg_catalog.text;
BEGIN
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF num_nonnulls(retention, retention_failed) = 0 OR retention < '0' OR retention_failed < '0' THEN
        RAISE EXCEPTION '%', CASE WHEN num_nonnulls(retention, retention_failed) = 0 THEN 'maintain() needs to know how long events are kept'
                                  ELSE 'events cannot be kept for less than no time' END
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'CALL outbox.maintain(retention => ''30 days''); deletes what became SENT before that. retention_failed does the '
                         'same for FAILED events, which can no longer be replayed then.';
    END IF;
    LOOP
        BEGIN
            SELECT * INTO step FROM outbox.delete_finished(since - retention, since - retention_failed, page, step_pages);
        EXCEPTION WHEN lock_not_available THEN -- of the table: a row that is locked is passed over
            tries := tries - 1;
            IF tries = 0 THEN
                RAISE;
            END IF;
            CONTINUE;
        WHEN insufficient_privilege THEN
            RAISE;
        WHEN OTHERS THEN -- other pages may fare better, where one is damaged
            failed_steps := failed_steps + 1;
            failed_page := coalesce(failed_page, page);
            failed_because := coalesce(failed_because, sqlerrm);
            SELECT 0::bigint AS deleted, 0::bigint AS holding, 0::bigint AS locked, 0::bigint AS refused, NULL::uuid AS refused_id, NULL::text AS refused_because,
                   pg_relation_size('outbox.events') / current_setting('block_size')::bigint AS table_pages INTO step;
        END;
        deleted := deleted + step.deleted;
        holding := holding + step.holding;
        locked := locked + step.locked;
        refused := refused + step.refused;
        refused_id := coalesce(refused_id, step.refused_id);
        refused_because := coalesce(refused_because, step.refused_because);
        pages := coalesce(pages, step.table_pages); -- events that are written later are not old
        page := page + step_pages;
        COMMIT;
        SET LOCAL search_path = pg_catalog, pg_temp;
        EXIT WHEN page >= pages;
    END LOOP;
    RAISE NOTICE 'deleted % events', deleted;
    IF refused > 0 THEN
        RAISE WARNING '% old events cannot be deleted', refused
            USING DETAIL = format('One is %s: %s.', refused_id, refused_because),
                  HINT = format('SELECT * FROM outbox.events WHERE id = %L;', refused_id);
    END IF;
    IF failed_steps > 0 THEN
        RAISE WARNING '% of the table''s parts cannot be looked through', failed_steps
            USING DETAIL = format('The first begins with page %s: %s.', failed_page, failed_because),
                  HINT = 'The others were. See the server''s log.';
    END IF;
    IF holding > 0 THEN
        RAISE NOTICE '% old events hold their keys and are kept', holding
            USING HINT = 'SELECT * FROM outbox.events WHERE holds_key; outbox.replay(id) or outbox.release(id) ends a hold.';
    END IF;
    IF locked > 0 THEN
        RAISE NOTICE '% old events were locked by others and wait for the next call', locked;
    END IF;
END
$$;
COMMENT ON PROCEDURE outbox.maintain(interval, interval) IS 'Deletes finished events that are old, in short transactions.';
