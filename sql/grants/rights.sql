-- Rights that got lost. pg_restore takes a function's REVOKE and GRANTs as one statement, which fails as a whole where one of the roles
-- is missing, and with --no-acl it takes none: PostgreSQL then lets everybody execute the function. So a function that acts with the
-- owner's rights begins with a look at that, each grant_*() takes back what privileges.sql does not give everybody, and
-- `outbox-relay check` names it.

-- Called where everybody may execute a function: refuses the call, unless the role that has logged in was granted it, or owns it.
--
-- A function that acts with the owner's rights cannot see which role has called it, only which one has logged in. Code of others that runs
-- in that session has its rights anyway, but for what VACUUM, ANALYZE and the like run as a table's owner: hence no exception for
-- superusers. Once the function is closed to PUBLIC, PostgreSQL itself asks the role that calls.
CREATE OR REPLACE FUNCTION outbox.require_grant(function regprocedure) RETURNS void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_proc AS p
        CROSS JOIN LATERAL (
            SELECT p.proowner
            UNION ALL SELECT a.grantee FROM aclexplode(p.proacl) AS a WHERE a.grantee <> 0 AND a.privilege_type = 'EXECUTE'
        ) AS granted (role)
        JOIN pg_roles AS r ON r.rolname = session_user
        WHERE p.oid = function AND (r.oid = granted.role OR NOT r.rolsuper AND pg_has_role(r.oid, granted.role, 'MEMBER'))
    ) THEN
        RAISE EXCEPTION 'permission denied for function %', function
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = format('Everybody may execute it, as after a restore without its rights, and it was not granted to %s.',
                                  session_user),
                  HINT = 'As the owner of the outbox, call outbox.grant_emit(), grant_relay(), grant_operate(), grant_monitor() or '
                         'grant_maintain() for each role again. SELECT * FROM outbox.open_to_public(); shows what is open.';
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.require_grant(regprocedure) IS
    'Internal: refuses the call of a function that everybody may execute, unless the role that has logged in was granted it.';

-- What everybody may do with a schema and what is in it, and is not meant to, with the statement that takes it back. In the schema outbox
-- everybody is meant to have what privileges.sql grants. A type is not listed: to use one is all that can be granted.
--
-- taken_back tells what grant_*() takes back. The rest is not the owner's to decide alone: what belongs to somebody else,
-- what somebody else has granted by a right WITH GRANT OPTION, and the default privileges that a role has in all schemas.
CREATE OR REPLACE FUNCTION outbox.open_to_public(
    schema text DEFAULT 'outbox', OUT object text, OUT privilege text, OUT closing text, OUT taken_back boolean
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off -- the functions that everybody may execute are known by their names
AS $$
    WITH home AS (
        SELECT n.* FROM pg_namespace AS n WHERE n.nspname = open_to_public.schema
    ), may (object, target, owner, acl, columns) AS (
        SELECT format('schema %I', h.nspname), format('SCHEMA %I', h.nspname), h.nspowner, h.nspacl, NULL
        FROM home AS h
        UNION ALL
        SELECT concat(CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view ' ELSE 'table ' END, c.oid::regclass),
               concat(CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' END, c.oid::regclass), c.relowner, c.relacl, NULL
        FROM pg_class AS c JOIN home AS h ON h.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT format('column %I of %s', a.attname, c.oid::regclass), c.oid::regclass::text, c.relowner, a.attacl,
               format(' (%I)', a.attname)
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN home AS h ON h.oid = c.relnamespace
        WHERE a.attacl IS NOT NULL AND NOT a.attisdropped
        UNION ALL
        SELECT format('function %s', p.oid::regprocedure), format('ROUTINE %s', p.oid::regprocedure), p.proowner,
               coalesce(p.proacl, acldefault('f', p.proowner)), NULL
        FROM pg_proc AS p JOIN home AS h ON h.oid = p.pronamespace
        WHERE h.nspname <> 'outbox' OR p.oid::regprocedure::text NOT IN (
            'outbox.version()', 'outbox.uuid_v7()', 'outbox.wake_relay()',
            'outbox.emit(text,text,text,text,text,jsonb,text,text,timestamp with time zone,text)')
    )
    SELECT m.object, acl.privilege_type,
           CASE WHEN acl.grantor = m.owner THEN format('REVOKE %s%s ON %s FROM PUBLIC', acl.privilege_type, m.columns, m.target)
               ELSE format('REVOKE GRANT OPTION FOR %s%s ON %s FROM %s CASCADE',
                           acl.privilege_type, m.columns, m.target, acl.grantor::regrole) END,
           acl.grantor = m.owner AND (m.owner IN (SELECT h.nspowner FROM home AS h) OR pg_has_role(m.owner, 'USAGE'))
    FROM may AS m CROSS JOIN LATERAL aclexplode(m.acl) AS acl
    WHERE acl.grantee = 0 AND NOT (m.object = 'schema outbox' AND acl.privilege_type = 'USAGE')
    UNION ALL
    SELECT concat(kind.word, ' to come of role ', d.defaclrole::regrole, ' in schema ' || quote_ident(h.nspname)), acl.privilege_type,
           concat('ALTER DEFAULT PRIVILEGES FOR ROLE ', d.defaclrole::regrole, ' IN SCHEMA ' || quote_ident(h.nspname),
                  ' REVOKE ', acl.privilege_type, ' ON ', upper(kind.word), ' FROM PUBLIC'),
           h.oid IS NOT NULL AND pg_has_role(d.defaclrole, 'USAGE')
    FROM pg_default_acl AS d
    JOIN (VALUES ('r'::"char", 'tables'), ('S', 'sequences')) AS kind (type, word) ON kind.type = d.defaclobjtype
    LEFT JOIN home AS h ON h.oid = d.defaclnamespace
    CROSS JOIN LATERAL aclexplode(d.defaclacl) AS acl
    WHERE acl.grantee = 0
      AND (h.oid IS NOT NULL OR d.defaclnamespace = 0 AND d.defaclrole IN (
          SELECT c.relowner FROM pg_class AS c JOIN home ON home.oid = c.relnamespace))
$$;
COMMENT ON FUNCTION outbox.open_to_public(text) IS 'What everybody may do and is not meant to, with the statement that takes it back.';

-- What each grant_*() begins with: takes back what everybody may do and is not meant to, and lets the role use the schema.
CREATE OR REPLACE FUNCTION outbox.begin_grant(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner CONSTANT regrole := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'outbox.events'::regclass);
    item record;
    closed text[];
BEGIN
    FOR item IN SELECT o.* FROM outbox.open_to_public() AS o WHERE o.taken_back LOOP
        IF NOT pg_has_role(owner, 'USAGE') THEN
            RAISE EXCEPTION 'only the owner of the outbox, %, can make its rights whole', owner
                USING ERRCODE = 'insufficient_privilege',
                      DETAIL = format('Everybody may do what was granted to nobody: %s on %s, for one.', item.privilege, item.object),
                      HINT = 'Call this function as that role.';
        END IF;
        EXECUTE item.closing;
        closed := closed || item.object;
    END LOOP;
    IF closed IS NOT NULL THEN
        RAISE NOTICE 'no longer open to everybody: %', array_to_string(closed[1:5], ', ')
            || CASE WHEN cardinality(closed) > 5 THEN format(' and %s more', cardinality(closed) - 5) ELSE '' END;
    END IF;
    FOR item IN SELECT o.* FROM outbox.open_to_public() AS o LOOP
        RAISE WARNING 'open to everybody: % on %', item.privilege, item.object USING HINT = item.closing || ';';
    END LOOP;
    IF NOT has_schema_privilege(role, 'outbox', 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.begin_grant(regrole) IS
    'Internal to grant_*(): takes back what everybody may do and is not meant to, and lets the role use the schema.';
