-- The publication the relay reads: inserts into one table. Says what it did: created, exists, or repaired.
--
-- SECURITY DEFINER, for a publication needs the table's owner. It repairs one that has lost the table, as after DROP
-- EXTENSION or a restore, but leaves alone one that publishes something else.
CREATE FUNCTION outbox.ensure_publication(name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    publication pg_publication;
    has_table boolean;
BEGIN
    SELECT * INTO publication FROM pg_publication AS p WHERE p.pubname = ensure_publication.name;
    IF NOT FOUND THEN
        BEGIN
            EXECUTE format('CREATE PUBLICATION %I FOR TABLE outbox.events WITH (publish = ''insert'')', name);
            RETURN 'created';
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            RETURN 'exists'; -- another relay was quicker
        END;
    END IF;

    SELECT coalesce(bool_or(t.schemaname = 'outbox' AND t.tablename = 'events'), false) INTO has_table
    FROM pg_publication_tables AS t WHERE t.pubname = ensure_publication.name;
    IF has_table AND publication.pubinsert THEN
        RETURN 'exists';
    END IF;
    IF EXISTS (
        SELECT FROM pg_publication_tables AS t
        WHERE t.pubname = ensure_publication.name AND (t.schemaname, t.tablename) <> ('outbox', 'events')
    ) THEN
        RAISE EXCEPTION 'publication % belongs to something else', name
            USING ERRCODE = 'duplicate_object',
                  DETAIL = 'It publishes other tables, but not the inserts of outbox.events.',
                  HINT = 'Choose another name, or add outbox.events to it.';
    END IF;
    IF NOT has_table THEN
        EXECUTE format('ALTER PUBLICATION %I ADD TABLE outbox.events', name);
    END IF;
    EXECUTE format('ALTER PUBLICATION %I SET (publish = ''insert'')', name);
    RETURN 'repaired';
END
$$;
COMMENT ON FUNCTION outbox.ensure_publication(text) IS 'Relay: makes or repairs its publication.';
