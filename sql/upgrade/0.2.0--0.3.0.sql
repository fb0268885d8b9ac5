-- From 0.2.0 to 0.3.0: what functions alone do not do, and then every function and view as this version has it. It is frozen, with
-- what it includes, when 0.3.0 is released.
--
-- upgrade.sql runs this for the plain SQL, and the extension's upgrade script is made of it (scripts/build-extension).

-- The lock on the table waits for open transactions that have emitted, and everybody else who emits waits behind it. So it is asked for
-- during half a second, and again after as much.
DO $$
DECLARE
    patience text := current_setting('lock_timeout');
    tries integer := 60;
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    LOOP
        BEGIN
            LOCK TABLE outbox.events IN ACCESS EXCLUSIVE MODE;
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
END
$$;

-- JSON becomes what was written, and is no longer taken apart. The table is written anew for that, during which nobody emits: purge what
-- is finished before, if there is much of it (docs/operations.md).
DROP TRIGGER envelope_is_final ON outbox.events;
DO $$
BEGIN
    ALTER TABLE outbox.events ALTER payload TYPE json, ALTER headers TYPE json;
EXCEPTION WHEN feature_not_supported OR undefined_object OR undefined_function OR datatype_mismatch THEN
    RAISE EXCEPTION 'something depends on the columns payload and headers of outbox.events, which become json: %', sqlerrm
        USING ERRCODE = sqlstate,
              DETAIL = 'There are: ' || (
                  SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
                  FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                  WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = 'outbox.events'::regclass AND a.attname IN ('payload', 'headers')
              ),
              HINT = 'Drop what the upgrade stopped at, and make it again after the upgrade, with payload::jsonb where it needs that.';
END
$$;
COMMENT ON COLUMN outbox.events.payload IS 'Body as JSON, which is sent as it was written; or payload_bytes is set.';
DROP FUNCTION outbox.event_bytes(jsonb, bytea, jsonb);
DROP FUNCTION outbox.owed(bigint, integer, text[], text[], bigint, boolean); -- it returns them

\ir ../emit_text.sql
\ir ../admit_trigger.sql
\ir ../envelope_trigger.sql
\ir ../ring.sql
\ir ../status_trigger.sql
\ir ../notify_trigger.sql
\ir ../page.sql
\ir ../flush.sql
\ir ../pending.sql
\ir ../owed.sql
\ir ../due.sql
\ir ../holding.sql
\ir ../settle.sql
\ir ../publication.sql
\ir ../sequence.sql
\ir ../replay.sql
\ir ../replay_many.sql
\ir ../release.sql
\ir ../retention.sql
\ir ../views.sql
\ir ../count.sql
\ir ../health.sql
\ir ../failures.sql
\ir ../limit_payloads.sql
\ir ../version.sql
\ir ../rights.sql
\ir ../grant_emit.sql
\ir ../grant_relay.sql
\ir ../grant_operate.sql
\ir ../grant_monitor.sql
\ir ../grant_maintain.sql
\ir ../default_rights.sql
\ir ../privileges.sql

-- Whoever works with this schema may do what is new in that work, too.
DO $$
DECLARE
    granted record;
BEGIN
    PERFORM set_config('client_min_messages', 'warning', true); -- grant_relay() tells whom it lets relay what else they need
    FOR granted IN
        SELECT p.proname AS function, acl.grantee::regrole AS role
        FROM pg_proc AS p CROSS JOIN aclexplode(p.proacl) AS acl
        WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname IN ('settle', 'failures', 'replay_many', 'delete_pages')
          AND acl.grantee NOT IN (0, p.proowner)
    LOOP
        CASE granted.function
            WHEN 'settle' THEN PERFORM outbox.grant_relay(granted.role);
            WHEN 'failures' THEN PERFORM outbox.grant_monitor(granted.role);
            WHEN 'replay_many' THEN PERFORM outbox.grant_operate(granted.role);
            WHEN 'delete_pages' THEN PERFORM outbox.grant_maintain(granted.role);
        END CASE;
    END LOOP;
    -- emit() of a text called that of a jsonb, and calls that of a json now.
    FOR granted IN
        SELECT acl.grantee::regrole AS role
        FROM pg_proc AS p CROSS JOIN aclexplode(p.proacl) AS acl
        WHERE p.oid = 'outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz)'::regprocedure
          AND acl.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz) TO %s', granted.role);
    END LOOP;
END
$$;
