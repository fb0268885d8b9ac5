-- What the database must be like.
--
-- The relay publishes text as UTF-8; a database in another encoding could hold names that no AMQP client can read.
-- Without wal_level = logical nothing is ever sent: events wait in the table, which is worth a warning, not a refusal,
-- since the setting may come with the next restart.
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'outbox needs a database in encoding UTF8, this one is in %', current_setting('server_encoding')
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Create the database with ENCODING ''UTF8'' TEMPLATE template0.';
    END IF;
    -- From PostgreSQL 19 on, replica is enough: the first logical slot raises it.
    IF current_setting('wal_level') <> 'logical'
       AND NOT (current_setting('wal_level') = 'replica' AND current_setting('server_version_num')::int >= 190000) THEN
        RAISE WARNING 'wal_level is %, the relay needs logical: events will wait in outbox.events unsent',
                current_setting('wal_level')
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'ALTER SYSTEM SET wal_level = logical; then restart the server.';
    END IF;
END
$$;
