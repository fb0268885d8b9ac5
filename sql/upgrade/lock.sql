-- The lock on the table waits for open transactions that have emitted, and everybody else who emits waits behind it. So it is asked for
-- during half a second, and again after as much. The views are made anew later: whoever reads one has locked it before the table, so they
-- are locked together with the table, and a deadlock ends with that half second.
DO $$
DECLARE
    found CONSTANT text := outbox.version();
    patience text := current_setting('lock_timeout');
    tries integer := 60;
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    LOOP
        BEGIN
            LOCK TABLE outbox.backlog, outbox.failed, outbox.events IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            tries := tries - 1;
            IF tries = 0 THEN
                RAISE EXCEPTION 'a transaction that uses outbox.events has been open for a minute'
                    USING ERRCODE = 'lock_not_available',
                          HINT = 'Upgrade once it has ended. SELECT pid, usename, application_name, state, xact_start FROM pg_stat_activity '
                                 'JOIN pg_locks USING (pid) WHERE relation = ''outbox.events''::regclass;';
            END IF;
            PERFORM pg_sleep(0.5);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
    IF outbox.version() <> found THEN
        RAISE EXCEPTION 'another session has upgraded the outbox meanwhile, to %', outbox.version()
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'There is nothing left to do.';
    END IF;
END
$$;
