-- Upgrades an outbox that was installed by install.sql of an earlier version: run it as the role that has run that one.
--
--     psql -d mydb -f sql/upgrade.sql
--
-- The script is one transaction. Applications may go on emitting, and so may the relay until the new one takes its place. With the
-- extension, ALTER EXTENSION outbox UPDATE does the same.
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
    IF outbox.version() = '0.2.0' THEN
        RAISE EXCEPTION 'this is outbox 0.2.0 already'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'There is nothing left to do.';
    END IF;
    IF outbox.version() <> '0.1.0' THEN
        RAISE EXCEPTION 'this is outbox %, and the script upgrades 0.1.0', outbox.version()
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Take the script of the version to which you upgrade.';
    END IF;
    IF owner <> quote_ident(current_user) THEN -- what is new would belong to somebody else
        RAISE EXCEPTION 'the outbox belongs to %, and this is %', owner, quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege', HINT = format('psql --command ''SET ROLE %s'' --file sql/upgrade.sql', owner);
    END IF;
END
$$;

-- What the extension has in Rust.
\ir plain/utf8_bytes.sql
\ir plain/printed_bytes.sql
\ir plain/header_size.sql
\ir plain/check_headers.sql
\ir plain/context.sql
\ir plain/refuse.sql
\ir plain/admit.sql

\ir upgrade/0.1.0--0.2.0.sql
COMMIT;
