-- Installs the outbox without the extension, where none can be installed, as on managed PostgreSQL.
--
--     psql -d mydb -f sql/install.sql
--
-- The role that runs this script owns the schema, and needs CREATE on the database. The relay works with this schema as it does
-- with the extension's. The script is one transaction: it installs everything, or nothing.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp; -- what others may have put into public is not looked up
DO $$
DECLARE
    owner text := (SELECT n.nspowner::regrole FROM pg_namespace AS n WHERE n.nspname = 'outbox');
BEGIN
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'schema "outbox" already exists'
            USING ERRCODE = 'duplicate_schema',
                  DETAIL = format('It belongs to role %s.', owner),
                  HINT = format('%1$sdt outbox.* and %1$sdf+ outbox.* show in psql what is in it, and whose it is. Call nothing in it unless '
                                'you trust that role. If the schema is empty: DROP SCHEMA outbox;', chr(92)); -- a backslash, whatever it is in a string
    END IF;
END
$$;
CREATE SCHEMA outbox;

-- What the extension has in Rust.
\ir plain/uuid_v7.sql

\ir requirements.sql
\ir status.sql
\ir events.sql
\ir indexes.sql

\ir plain/utf8_bytes.sql
\ir plain/event_bytes.sql
\ir plain/header_size.sql
\ir plain/check_headers.sql
\ir plain/check_reserved.sql
\ir plain/payload_limit.sql
\ir plain/check_payload_size.sql
\ir plain/check_utf8.sql
\ir plain/context.sql
\ir plain/refuse.sql
\ir plain/admit.sql
\ir plain/emit.sql

\ir admit_trigger.sql
\ir envelope_trigger.sql
\ir ring.sql
\ir status_trigger.sql
\ir notify_trigger.sql
\ir page.sql
\ir flush.sql
\ir pending.sql
\ir owed.sql
\ir due.sql
\ir holding.sql
\ir plain/settle_sent.sql
\ir settle.sql
\ir publication.sql
\ir sequence.sql
\ir audit.sql
\ir replay.sql
\ir replay_many.sql
\ir release.sql
\ir retention.sql
\ir views.sql
\ir count.sql
\ir health.sql
\ir failures.sql
\ir limit_payloads.sql
\ir version.sql
\ir emit_text.sql
\ir rights.sql
\ir grant_emit.sql
\ir grant_relay.sql
\ir grant_operate.sql
\ir grant_monitor.sql
\ir grant_maintain.sql
\ir default_rights.sql
\ir privileges.sql
COMMIT;
