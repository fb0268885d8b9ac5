-- Takes back what the default privileges of the role that installs have given others, by name or as PUBLIC: on what was just made, nothing
-- was granted yet. An upgrade says what was there before it (present.sql), on which every right is the DBA's to give. So is the use of a
-- schema that CREATE EXTENSION may have found. A right on a type is none on events.
DO $$
DECLARE
    present oid[] := nullif(current_setting('outbox_upgrade.present', true), '')::oid[];
    item record;
BEGIN
    FOR item IN
        SELECT DISTINCT o.right_on, CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS role
        FROM (
            SELECT n.oid, CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox') THEN 'CREATE' ELSE 'ALL' END || ' ON SCHEMA outbox',
                n.nspowner, n.nspacl
            FROM pg_namespace AS n WHERE n.nspname = 'outbox'
            UNION ALL
            SELECT c.oid, concat('ALL ON ', CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END, c.oid::regclass), c.relowner, c.relacl
            FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'v', 'S')
            UNION ALL
            SELECT p.oid, format('ALL ON ROUTINE %s', p.oid::regprocedure), p.proowner, p.proacl
            FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
        ) AS o (oid, right_on, owner, acl)
        CROSS JOIN LATERAL aclexplode(o.acl) AS acl
        WHERE acl.grantee <> o.owner AND NOT o.oid = ANY (coalesce(present, '{}'))
    LOOP
        EXECUTE format('REVOKE %s FROM %s', item.right_on, item.role);
    END LOOP;
END
$$;
