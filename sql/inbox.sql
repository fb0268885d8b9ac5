-- An inbox: a consumer notes which messages it has dealt with, in the transaction in which it deals with them.
--
--     psql -d mydb -f sql/inbox.sql
--
-- For the database of a consumer, whatever its messages come from. It needs neither the extension nor the outbox's schema, and stands beside
-- them where a database has both. The role that runs this script owns the inbox, and needs CREATE on the database. Where it owns one of
-- an earlier version already, the script upgrades that: messages and grants stay. The script is one transaction: it does all, or nothing.
--
--     BEGIN;
--     SELECT inbox.receive('billing', '01a1fd4c-25b9-7c6a-a420-31b130406efa');   -- true: new; false: dealt with before
--     -- the effect, if it was new
--     COMMIT;                                                                    -- then acknowledge the message
--
-- It has a schema of its own, because the schema outbox may belong to the extension. Nothing else can be in that: CREATE EXTENSION, and
-- with it every restore of a dump, refuses a schema that holds other roles' objects; sql/outbox.sql refuses any schema of that name;
-- and who installs an inbox may have no rights there. It is the same schema where there is no outbox, so that a consumer's code runs
-- in either database.
--
-- The table is a plain one, whose primary key decides: under every isolation level, and however many receive the same message. Partitions
-- that are dropped would forget for nothing, but a key is unique within one of them only: each receive would look in all of them, and
-- would have to wait while they change. Measured, that costs more than to delete the rows does (docs/consuming.md).
\set ON_ERROR_STOP on
BEGIN;
\ir plain/transaction.sql
-- An inbox of an earlier version is one only if nothing in the schema is anybody else's: they could change it again.
DO $$
DECLARE
    found oid := to_regnamespace('inbox');
BEGIN
    PERFORM set_config('outbox_script.is_new', (found IS NULL)::text, true);
    IF found IS NULL THEN
        CREATE SCHEMA inbox;
    ELSIF coalesce(obj_description(found, 'pg_namespace'), '') NOT LIKE 'Messages that consumers have dealt with: the inbox of outbox %'
        OR NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conrelid = to_regclass('inbox.received') AND c.contype = 'p')
    THEN
        RAISE EXCEPTION 'schema "inbox" already exists, and is not the inbox of outbox'
            USING ERRCODE = 'duplicate_schema',
                  HINT = chr(92) || 'dn+ inbox tells in psql what it is. If the schema is empty: DROP SCHEMA inbox;';
    ELSIF EXISTS (
        SELECT FROM (
            SELECT n.nspowner FROM pg_namespace AS n WHERE n.oid = found
            UNION ALL SELECT c.relowner FROM pg_class AS c WHERE c.relnamespace = found
            UNION ALL SELECT p.proowner FROM pg_proc AS p WHERE p.pronamespace = found
        ) AS o (owner)
        WHERE o.owner <> (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user)
    ) THEN
        RAISE EXCEPTION 'the inbox, or something in its schema, does not belong to %', quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Let the role upgrade it that owns it; ' || chr(92) || 'dn inbox, ' || chr(92) || 'd inbox.* and ' || chr(92)
                         || 'df inbox.* name the owners in psql.';
    END IF;
END
$$;
COMMENT ON SCHEMA inbox IS 'Messages that consumers have dealt with: the inbox of outbox 0.3.0.';

CREATE TABLE IF NOT EXISTS inbox.received (
    message_id  uuid        NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    replay      integer     NOT NULL DEFAULT 0,
    consumer    text        NOT NULL COLLATE "C",
    PRIMARY KEY (message_id, consumer, replay)
) WITH (
    -- Rows are deleted in the order in which they came. If that is soon followed by a VACUUM, new rows take their room, and the table
    -- stays as large as what is remembered.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000
);
DO $$
BEGIN
    -- IF NOT EXISTS would wait for consumers before it finds that out, and others behind it.
    IF to_regclass('inbox.received_by_time') IS NULL THEN
        CREATE INDEX received_by_time ON inbox.received (received_at); -- for forget()
    END IF;
END
$$;
COMMENT ON TABLE inbox.received IS 'What each consumer has dealt with.';
COMMENT ON COLUMN inbox.received.message_id IS 'The AMQP message_id.';
COMMENT ON COLUMN inbox.received.received_at IS 'Start of the transaction that received it.';
COMMENT ON COLUMN inbox.received.replay IS '0, or what the consumer gave: the header x-outbox-replay.';

-- Returns true if this consumer has not received this message before, and notes it; false if it has. It is a part of the caller's
-- transaction: a rollback forgets it.
--
-- If another transaction is just receiving the same message, this one waits for its end: after a commit the message is not new, after
-- a rollback it is. That is so under READ COMMITTED. Under REPEATABLE READ and SERIALIZABLE, a message that was received after this
-- transaction's snapshot was taken ends it with a serialization failure (40001), and the transaction is to be tried again.
--
-- A consumer that wants to see replays gives the number of the replay, from the header x-outbox-replay, 0 or null where there is none: each
-- number is then new, once. Without a number, a message is new if the consumer has received it under none.
CREATE OR REPLACE FUNCTION inbox.receive(consumer text, message_id uuid, replay integer DEFAULT 0) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_function_privilege('public', 'inbox.receive(text, uuid, integer)'::regprocedure, 'EXECUTE') THEN
        PERFORM inbox.require_grant('inbox.receive(text, uuid, integer)');
    END IF;
    IF (octet_length(receive.consumer) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION 'consumer is %', coalesce(octet_length(receive.consumer) || ' bytes long', 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It is a name of 1 to 255 bytes, for example ''billing''.';
    END IF;
    IF receive.message_id IS NULL THEN
        RAISE EXCEPTION 'message_id is null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Every message of an outbox has one. For another message, make one of what is unique in it: md5(its id)::uuid.';
    END IF;
    IF coalesce(receive.replay, 0) = 0 AND EXISTS (
        SELECT FROM inbox.received AS r WHERE r.message_id = receive.message_id AND r.consumer = receive.consumer AND r.replay <> 0
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO inbox.received (message_id, consumer, replay)
    VALUES (receive.message_id, receive.consumer, coalesce(receive.replay, 0))
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION inbox.receive(text, uuid, integer) IS
    'Notes with this transaction that the consumer deals with a message; false if it has before.';

-- Called where everybody may execute receive(), as after a restore without its rights: refuses the call, unless the role that has logged in
-- was granted it, or owns it. (It is outbox.require_grant(), which says why it asks for that role; a consumer's database need not have one.)
CREATE OR REPLACE FUNCTION inbox.require_grant(function regprocedure) RETURNS void
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
                  HINT = 'As the owner of the inbox: SELECT inbox.grant_receive(''<role>''); for each consumer''s role again.';
    END IF;
END
$$;
COMMENT ON FUNCTION inbox.require_grant(regprocedure) IS
    'Internal: refuses the call of a function that everybody may execute, unless the role that has logged in was granted it.';

-- Forgets what was received longer ago than that. Call it once an hour or a day, as the table's owner:
--
--     CALL inbox.forget('30 days');
--
-- It deletes ten thousand rows at a time, oldest first, and commits each time, so it cannot run within a transaction. No consumer waits for
-- it, and it waits for none: it leaves out rows that somebody has locked. Two calls at a time share the work.
CREATE OR REPLACE PROCEDURE inbox.forget(older_than interval)
LANGUAGE plpgsql -- without SECURITY DEFINER and SET, with which PostgreSQL lets no procedure commit: each transaction pins the path
AS $$
DECLARE
    batch CONSTANT integer := 10000;
    until pg_catalog.timestamptz;
    reached pg_catalog.timestamptz := '-infinity'; -- what was deleted before is not looked at again
    deleted bigint;
BEGIN
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF (older_than > '0') IS NOT TRUE THEN
        RAISE EXCEPTION 'older_than must be positive, it is %', coalesce(older_than::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example CALL inbox.forget(''30 days'').';
    END IF;
    until := clock_timestamp() - older_than;
    LOOP
        -- Under a stricter level, rows that another call has just deleted would end this one.
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        SET LOCAL search_path = pg_catalog, pg_temp;
        WITH oldest AS MATERIALIZED (
            SELECT r.ctid AS place FROM inbox.received AS r
            WHERE r.received_at >= reached AND r.received_at < until
            ORDER BY r.received_at
            LIMIT batch
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM inbox.received AS r USING oldest WHERE r.ctid = oldest.place RETURNING r.received_at
        )
        SELECT count(*), coalesce(max(gone.received_at), reached) INTO deleted, reached FROM gone;
        EXIT WHEN deleted < batch;
    END LOOP;
END
$$;
COMMENT ON PROCEDURE inbox.forget(interval) IS 'Deletes what was received longer ago; call it regularly.';

-- Grants what a consumer's role needs. It can read and delete nothing. Roles that have it are not kept apart: each can receive in the name
-- of any consumer of this database. What everybody may do is taken back first: a restore may have given it.
CREATE OR REPLACE FUNCTION inbox.grant_receive(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    REVOKE ALL ON SCHEMA inbox FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA inbox FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA inbox FROM PUBLIC;
    EXECUTE format('GRANT USAGE ON SCHEMA inbox TO %s', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION inbox.receive(text, uuid, integer) TO %s', role);
END
$$;
COMMENT ON FUNCTION inbox.grant_receive(regrole) IS 'Lets a role receive messages, and nothing else.';

-- What others may do in a new inbox, they may by the default privileges of this role, and everybody by those of PostgreSQL: nothing was
-- granted yet. An earlier inbox keeps its grants, and gives none of a function that the upgrade has added.
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM (
            SELECT n.nspowner, n.nspacl FROM pg_namespace AS n WHERE n.nspname = 'inbox'
            UNION ALL SELECT c.relowner, c.relacl FROM pg_class AS c WHERE c.relnamespace = 'inbox'::regnamespace
            UNION ALL SELECT p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc AS p
                WHERE p.pronamespace = 'inbox'::regnamespace
        ) AS o (owner, acl)
        CROSS JOIN LATERAL aclexplode(o.acl) AS acl
        WHERE acl.grantee <> o.owner
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION inbox.require_grant(regprocedure) FROM %s', role);
        CONTINUE WHEN current_setting('outbox_script.is_new') = 'false';
        EXECUTE format('REVOKE ALL ON SCHEMA inbox FROM %s', role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA inbox FROM %s', role);
        EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA inbox FROM %s', role);
    END LOOP;
END
$$;
\ir plain/end.sql
COMMIT;
