-- CREATE EXTENSION puts its objects into a schema `outbox` that is there already, as a restore needs it: pg_dump writes
-- CREATE SCHEMA first. Whoever owns that schema can drop it with every event in it, and whoever may create objects in it can put a
-- function beside outbox.emit(), so both have to be reserved for superusers. (What its owner grants later is the owner's business.)
--
-- The script of an extension runs with its schema ahead of the caller's: nothing may be looked up there before it is checked.
DO $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    schema_owner text;
    others text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

    SELECT r.rolname INTO schema_owner
    FROM pg_namespace AS n JOIN pg_roles AS r ON r.oid = n.nspowner
    WHERE n.nspname = 'outbox' AND NOT r.rolsuper;
    IF FOUND THEN
        RAISE EXCEPTION 'schema outbox belongs to role %, who could drop it with all events', schema_owner
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The extension is installed into a schema of its own, or into one that a superuser owns.',
                  HINT = format('DROP SCHEMA outbox; or, if it is meant for this: ALTER SCHEMA outbox OWNER TO %I;', current_user);
    END IF;

    SELECT string_agg(DISTINCT coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ') INTO others
    FROM pg_namespace AS n
    CROSS JOIN aclexplode(n.nspacl) AS granted
    LEFT JOIN pg_roles AS r ON r.oid = granted.grantee
    WHERE n.nspname = 'outbox' AND granted.privilege_type = 'CREATE' AND r.rolsuper IS NOT TRUE;
    IF others IS NOT NULL THEN
        RAISE EXCEPTION 'others may create objects in schema outbox: %', others
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'They could put a function beside outbox.emit() that is called in its place.',
                  HINT = format('CREATE SCHEMA IF NOT EXISTS outbox; REVOKE CREATE ON SCHEMA outbox FROM %s;', others);
    END IF;

    SELECT string_agg(format('%s of role %s', pg_describe_object(o.classid, o.objid, 0), r.rolname), ', ') INTO others
    FROM pg_depend AS d
    JOIN pg_shdepend AS o ON o.classid = d.classid AND o.objid = d.objid AND o.objsubid = 0 AND o.deptype = 'o'
        AND o.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    JOIN pg_roles AS r ON r.oid = o.refobjid
    WHERE d.refclassid = 'pg_namespace'::regclass
      AND d.refobjid = (SELECT oid FROM pg_namespace WHERE nspname = 'outbox')
      AND NOT r.rolsuper;
    IF others IS NOT NULL THEN
        RAISE EXCEPTION 'schema outbox holds objects that belong to others'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('There are: %s.', others),
                  HINT = 'Drop them, or move them to another schema.';
    END IF;

    PERFORM pg_catalog.set_config('search_path', path, true);
END
$$;
