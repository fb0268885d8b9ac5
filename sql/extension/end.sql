-- PostgreSQL takes what roles were granted for the extension's own rights, where a script of the extension grants or revokes on the same
-- object, and pg_dump leaves out what CREATE EXTENSION will grant anyway: after an upgrade and a restore, no role would have its rights.
-- Only PUBLIC's and the owner's are the extension's.
DO $$
DECLARE
    own record;
BEGIN
    FOR own IN
        SELECT p.objoid, p.classoid, p.objsubid,
               ARRAY(SELECT item FROM unnest(p.initprivs) AS item, aclexplode(ARRAY[item]) AS acl
                     WHERE acl.grantee IN (0, acl.grantor) GROUP BY item) AS privileges
        FROM pg_init_privs AS p
        WHERE p.privtype = 'e' AND (p.classoid = 'pg_namespace'::regclass AND p.objoid = 'outbox'::regnamespace OR EXISTS (
            SELECT FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
            WHERE e.extname = 'outbox' AND d.deptype = 'e' AND d.classid = p.classoid AND d.objid = p.objoid))
    LOOP
        IF own.privileges = '{}' THEN
            DELETE FROM pg_init_privs AS p WHERE (p.objoid, p.classoid, p.objsubid) = (own.objoid, own.classoid, own.objsubid);
        ELSE
            UPDATE pg_init_privs AS p SET initprivs = own.privileges
            WHERE (p.objoid, p.classoid, p.objsubid) = (own.objoid, own.classoid, own.objsubid);
        END IF;
        -- Since PostgreSQL 17 these say which roles are in them.
        DELETE FROM pg_shdepend AS s
        WHERE s.deptype = 'i' AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND (s.classid, s.objid, s.objsubid) = (own.classoid, own.objoid, own.objsubid);
    END LOOP;
END
$$;
