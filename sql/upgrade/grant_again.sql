-- Whoever works with this schema may do what is new in that work, too.
DO $$
DECLARE
    messages text := current_setting('client_min_messages');
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
    PERFORM set_config('client_min_messages', messages, true);
END
$$;
