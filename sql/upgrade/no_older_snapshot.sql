-- A table that was written anew is empty for a transaction whose snapshot is older: a pg_dump that began meanwhile, and waits for the table,
-- would end well and have no event. So the upgrade does not end while one waits. Others that wait are left alone: a relay or a monitor finds
-- nothing once, and looks again.
DO $$
DECLARE
    waiting record;
BEGIN
    SELECT l.pid, a.application_name INTO waiting
    FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE l.relation = 'outbox.events'::regclass AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND NOT l.granted AND l.mode = 'AccessShareLock' AND (a.application_name = 'pg_dump' OR a.query LIKE 'LOCK TABLE %')
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the session with pid %, %, began during the upgrade and would find outbox.events empty', waiting.pid, waiting.application_name
            USING ERRCODE = 'object_in_use',
                  DETAIL = 'Nothing was changed. A transaction that is older than a table''s new form does not see its rows.',
                  HINT = 'Upgrade again while no dump is made.';
    END IF;
END
$$;
