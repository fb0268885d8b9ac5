-- Whoever works with this schema may do what is new in that work, too: a role that has all that grant_relay() and its like give of what
-- was there before. A role whose rights were chosen otherwise keeps those and gets nothing.
DO $$
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    present oid[] := split_part(current_setting('outbox_upgrade.present'), ' ', 2)::oid[];
    columns CONSTANT name[] := current_setting('outbox_upgrade.columns')::name[];
    rights CONSTANT text := $sql$
        SELECT array_agg(DISTINCT concat_ws(' ', r.object, acl.privilege_type))
        FROM (
            SELECT p.oid::text, p.proacl FROM pg_proc AS p WHERE p.oid = ANY ($1)
            UNION ALL SELECT c.oid::text, c.relacl FROM pg_class AS c WHERE c.oid = ANY ($1)
            UNION ALL SELECT a.attname, a.attacl FROM pg_attribute AS a
            WHERE a.attrelid = 'outbox.events'::regclass AND a.attname = ANY ($2)
        ) AS r (object, acl) CROSS JOIN aclexplode(r.acl) AS acl
        WHERE acl.grantee = $3
    $sql$;
    granted record;
    made_again text;
    had text[];
    has text[];
BEGIN
    PERFORM set_config('client_min_messages', 'warning', true); -- grant_relay() tells whom it lets relay what else they need
    -- Functions that were dropped, and made again with another name or other columns. Their rights are chosen as well.
    FOREACH made_again IN ARRAY current_setting('outbox_upgrade.granted')::text[] LOOP
        IF to_regprocedure(substring(made_again FROM '^FUNCTION ([^)]*\)) TO ')) IS NOT NULL THEN
            EXECUTE 'GRANT EXECUTE ON ' || made_again;
        END IF;
    END LOOP;
    present := present || ARRAY(
        SELECT to_regprocedure(name)::oid FROM unnest(current_setting('outbox_upgrade.made_again')::text[]) AS name
    );
    FOR granted IN
        SELECT p.proname AS function, acl.grantee::regrole AS role
        FROM pg_proc AS p CROSS JOIN aclexplode(p.proacl) AS acl
        WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname IN ('settle', 'failures', 'replay_many', 'delete_pages')
          AND acl.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE rights INTO had USING present, columns, granted.role::oid;
        BEGIN
            CASE granted.function
                WHEN 'settle' THEN PERFORM outbox.grant_relay(granted.role);
                WHEN 'failures' THEN PERFORM outbox.grant_monitor(granted.role);
                WHEN 'replay_many' THEN PERFORM outbox.grant_operate(granted.role);
                WHEN 'delete_pages' THEN PERFORM outbox.grant_maintain(granted.role);
            END CASE;
            EXECUTE rights INTO has USING present, columns, granted.role::oid;
            IF has <> had THEN
                RAISE triggered_action_exception; -- takes the grant back
            END IF;
        EXCEPTION WHEN triggered_action_exception THEN
            NULL;
        END;
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
