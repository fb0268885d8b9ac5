-- Records which objects an upgrade found, and which columns they had: their rights are the DBA's (default_rights.sql, grant_again.sql). The
-- record begins with the transaction, so neither a later script of the same upgrade nor a setting of the database passes for it.
DO $$
BEGIN
    IF coalesce(current_setting('outbox_upgrade.present', true), '') NOT LIKE pg_current_xact_id() || ' {%' THEN
        PERFORM set_config('outbox_upgrade.present', pg_current_xact_id() || ' ' || ARRAY(
            SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = 'outbox'
            UNION ALL SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace
            UNION ALL SELECT p.oid FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
        )::text, true);
        PERFORM set_config('outbox_upgrade.granted', '{}', true); -- the migrations fill these two
        PERFORM set_config('outbox_upgrade.made_again', '{}', true);
        PERFORM set_config('outbox_upgrade.columns', ARRAY(
            SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = 'outbox.events'::regclass
        )::text, true);
    END IF;
END
$$;
