-- A table that was written anew is empty for a transaction whose snapshot is older: a pg_dump that began meanwhile, and waits for the table, or
-- for another that the same migration has locked, would end well and have no event. So the upgrade does not end while there is one: any that had
-- locked the table before would have kept the upgrade from it. Others that wait are left alone: a relay or a monitor finds nothing once, and
-- looks again.
DO $$
DECLARE
    waiting record;
BEGIN
    PERFORM pg_stat_clear_snapshot(); -- what this transaction has seen before
    SELECT a.pid, a.application_name INTO waiting
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND (
        a.application_name = 'pg_dump' AND a.backend_xmin IS NOT NULL
        OR a.query LIKE 'LOCK TABLE %' AND EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.pid = a.pid AND NOT l.granted AND l.mode = 'AccessShareLock' AND l.relation = 'outbox.events'::regclass
              AND l.database = a.datid
        )
    )
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the session with pid %, %, began during the upgrade and may find outbox.events empty', waiting.pid, waiting.application_name
            USING ERRCODE = 'object_in_use',
                  DETAIL = 'Nothing was changed. A transaction that is older than a table''s new form does not see its rows.',
                  HINT = 'Upgrade again while no dump is made.';
    END IF;
END
$$;
