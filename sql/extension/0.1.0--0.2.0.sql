-- From 0.1.0 to 0.2.0, what only the extension has: the column that it has added to the table is its own, not a user's.
DO $$
DECLARE
    makeup text[] := outbox.table_makeup_of_extension() || ARRAY(
        SELECT made FROM outbox.table_makeup('outbox.events'::regclass) AS made WHERE made LIKE 'column replays %');
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION outbox.table_makeup_of_extension() RETURNS text[] LANGUAGE sql IMMUTABLE RETURN %L::text[]', makeup);
END
$$;
