-- Remembers what the table has that the extension has not made, for dump.sql.
DO $$
BEGIN
    PERFORM set_config('outbox_upgrade.added', ARRAY(
        SELECT outbox.table_makeup('outbox.events'::regclass) EXCEPT ALL SELECT unnest(outbox.table_makeup_of_extension())
    )::text, true);
END
$$;
