-- Revokes what the installing role's default privileges have granted to others or to PUBLIC on objects made just now: nobody was granted
-- anything yet. Objects that an upgrade found (present.sql) keep their rights, and so does USAGE of a schema that CREATE EXTENSION found.
-- Types are left out: a right on a type opens no event.
DO $$
DECLARE
    recorded text := current_setting('outbox_upgrade.present', true);
    present oid[] := CASE WHEN recorded LIKE pg_current_xact_id() || ' {%' THEN split_part(recorded, ' ', 2)::oid[] ELSE '{}' END;
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
        WHERE acl.grantee <> o.owner AND NOT o.oid = ANY (present)
    LOOP
        EXECUTE format('REVOKE %s FROM %s', item.right_on, item.role);
    END LOOP;
END
$$;
