-- What the database must be like.
--
-- Any encoding will do that PostgreSQL converts to UTF-8, in which it sends the relay all text: that is all but MULE_INTERNAL. What is no
-- text in UTF-8 is refused when it is emitted.
--
-- Without wal_level = logical nothing is ever sent: events wait in the table, which is worth a warning, not a refusal,
-- since the setting may come with the next restart.
DO $$
BEGIN
    IF getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') AND NOT EXISTS (
        SELECT FROM pg_conversion
        WHERE condefault AND conforencoding = pg_char_to_encoding(getdatabaseencoding()) AND contoencoding = pg_char_to_encoding('UTF8')
    ) THEN
        RAISE EXCEPTION 'no relay could read a database in %', getdatabaseencoding()
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'PostgreSQL cannot convert its texts to UTF-8, in which messages are sent.',
                  HINT = format('CREATE DATABASE %I_utf8 TEMPLATE template0 ENCODING ''UTF8'';', current_database());
    END IF;

    -- From PostgreSQL 19 on, replica is enough: the first logical slot raises it.
    IF current_setting('wal_level') <> 'logical'
       AND NOT (current_setting('wal_level') = 'replica' AND current_setting('server_version_num')::int >= 190000) THEN
        RAISE WARNING 'wal_level is %, the relay needs logical: events will wait in outbox.events unsent',
                current_setting('wal_level')
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE
                      WHEN to_regrole('rds_superuser') IS NOT NULL OR current_setting('rds.logical_replication', true) <> ''
                          THEN 'Set rds.logical_replication = 1 in the parameter group of the instance (Aurora: of the cluster), then reboot it.'
                      WHEN to_regrole('cloudsqlsuperuser') IS NOT NULL OR current_setting('cloudsql.logical_decoding', true) <> ''
                          THEN 'Set the flag cloudsql.logical_decoding = on, which restarts the instance.'
                      WHEN to_regrole('azure_pg_admin') IS NOT NULL OR current_setting('azure.extensions', true) <> ''
                          THEN 'Set the server parameter wal_level to logical, then restart the server.'
                      WHEN to_regrole('neon_superuser') IS NOT NULL
                          THEN 'Enable logical replication in the project''s settings.'
                      ELSE 'ALTER SYSTEM SET wal_level = logical; then restart the server.'
                  END;
    END IF;
END
$$;
