-- What the database must be like.
--
-- Any encoding will do: PostgreSQL sends the relay all text in UTF-8, and what is none in UTF-8 is refused when it is emitted.
--
-- Without wal_level = logical nothing is ever sent: events wait in the table, which is worth a warning, not a refusal,
-- since the setting may come with the next restart.
DO $$
BEGIN
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
