-- Notes what is there before an upgrade, for default_rights.sql: rights on that are the DBA's to give.
DO $$
BEGIN
    IF coalesce(current_setting('outbox_upgrade.present', true), '') = '' THEN
        PERFORM set_config('outbox_upgrade.present', ARRAY(
            SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = 'outbox'
            UNION ALL SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace
            UNION ALL SELECT p.oid FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
        )::text, true);
    END IF;
END
$$;
