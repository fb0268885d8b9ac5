-- Upgrades an outbox that was installed by install.sql of an earlier version: run it as the role that has run that one.
--
--     psql -d mydb -f sql/upgrade.sql
--
-- The script is one transaction. From 0.2.0 on, whoever emits waits while the table is written anew, and the relay of that version waits
-- for the new one after it. With the extension, ALTER EXTENSION outbox UPDATE does the same.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp; -- what others may have put into public is not looked up
DO $$
DECLARE
    owner text := (SELECT relowner::regrole FROM pg_class WHERE oid = 'outbox.events'::regclass);
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox') THEN
        RAISE EXCEPTION 'the outbox in this database is the extension'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'ALTER EXTENSION outbox UPDATE;';
    END IF;
    IF owner <> quote_ident(current_user) THEN -- what is new would belong to somebody else, and nothing of another role's is called here
        RAISE EXCEPTION 'the outbox belongs to %, and this is %', owner, quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege', HINT = format('psql --command ''SET ROLE %s'' --file sql/upgrade.sql', owner);
    END IF;
    IF outbox.version() = '0.3.0' THEN
        RAISE EXCEPTION 'this is outbox 0.3.0 already'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'There is nothing left to do.';
    END IF;
    IF outbox.version() NOT IN ('0.1.0', '0.2.0') THEN
        RAISE EXCEPTION 'this is outbox %, and the script upgrades 0.1.0 and 0.2.0', outbox.version()
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Take the script of the version to which you upgrade.';
    END IF;
END
$$;

\ir present.sql
SELECT outbox.version() = '0.1.0' AS is_0_1_0 \gset
\if :is_0_1_0
    \ir plain/upgrade/0.1.0--0.2.0.sql
    \ir upgrade/0.1.0--0.2.0.sql
\endif
\ir plain/upgrade/0.2.0--0.3.0.sql
\ir upgrade/0.2.0--0.3.0.sql
COMMIT;
