-- What changes in the tables from 0.2.0 to 0.3.0, and what is dropped. It is frozen when 0.3.0 is released.
--
-- JSON becomes what was written, and is no longer taken apart. The table is written anew for that, during which nobody emits: purge what
-- is finished before, if there is much of it (docs/operations.md).
DO $$
DECLARE
    dropped text;
BEGIN
    IF outbox.version() NOT IN ('0.1.0', '0.2.0') THEN
        RETURN;
    END IF;
    DROP TRIGGER envelope_is_final ON outbox.events; -- it names the columns
    BEGIN
        ALTER TABLE outbox.events ALTER payload TYPE json, ALTER headers TYPE json;
    EXCEPTION WHEN feature_not_supported OR undefined_object OR undefined_function OR datatype_mismatch THEN
        RAISE EXCEPTION 'something depends on the columns payload and headers of outbox.events, which become json: %', sqlerrm
            USING ERRCODE = sqlstate,
                  DETAIL = 'There are: ' || coalesce((
                      SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
                      FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                      WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = 'outbox.events'::regclass AND a.attname IN ('payload', 'headers')
                  ), 'what the message names.'),
                  HINT = 'Drop what the upgrade stopped at, and make it again after the upgrade, with payload::jsonb where it needs that.';
    END;
    COMMENT ON COLUMN outbox.events.payload IS 'Body as JSON, which is sent as it was written; or payload_bytes is set.';

    FOREACH dropped IN ARRAY ARRAY[
        'outbox.event_bytes(jsonb, bytea, jsonb)',
        'outbox.owed(bigint, integer, text[], text[], bigint, boolean)', -- it returns the columns
        'outbox.check_headers(jsonb)', -- the plain SQL's, as the next
        'outbox.printed_bytes(jsonb)'
    ] LOOP
        IF to_regprocedure(dropped) IS NOT NULL THEN
            PERFORM set_config('outbox_upgrade.granted', (current_setting('outbox_upgrade.granted')::text[] || ARRAY(
                SELECT format('FUNCTION %s TO %s', replace(dropped, 'jsonb', 'json'), acl.grantee::regrole)
                FROM pg_proc AS p CROSS JOIN aclexplode(p.proacl) AS acl
                WHERE p.oid = to_regprocedure(dropped) AND acl.grantee NOT IN (0, p.proowner)
            ))::text, true); -- for grant_again.sql
            EXECUTE 'DROP FUNCTION ' || dropped;
        END IF;
    END LOOP;
END
$$;
