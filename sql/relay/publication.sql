-- Makes the publication that the relay reads: inserts into one table. Says what was done: created, exists, or repaired.
--
-- SECURITY DEFINER, because only the table's owner can publish it. A publication that this function has made is repaired when it
-- has lost the table, as after DROP EXTENSION or a restore, or publishes only some of its columns or rows; its comment tells which
-- one that is. One of somebody else's making is left alone: whoever reads it may not be meant to see more than it publishes.
CREATE OR REPLACE FUNCTION outbox.ensure_publication(name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    events CONSTANT oid := 'outbox.events'::regclass;
    mark CONSTANT text := 'Inserts of outbox.events for the relay, made by outbox.ensure_publication()';
    publication pg_publication;
    has_table boolean;
    has_other boolean;
    has_schema boolean := false;
    is_partial boolean;
    is_own boolean;
BEGIN
    IF has_function_privilege('public', 'outbox.ensure_publication(text)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.ensure_publication(text)');
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT * INTO publication FROM pg_publication AS p WHERE p.pubname = ensure_publication.name;
        -- Read from here and not from the view pg_publication_tables, which waits for whoever has locked one of the tables
        -- (since PostgreSQL 17). With a list of columns or a row filter (since PostgreSQL 15) only a part is published.
        SELECT coalesce(bool_or(r.prrelid = events), false), coalesce(bool_or(r.prrelid <> events), false),
               coalesce(bool_or(r.prrelid = events
                   AND (to_jsonb(r) ->> 'prattrs' IS NOT NULL OR to_jsonb(r) ->> 'prqual' IS NOT NULL)), false)
        INTO has_table, has_other, is_partial
        FROM pg_publication_rel AS r WHERE r.prpubid = publication.oid;
        IF to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL THEN -- since PostgreSQL 15
            EXECUTE 'SELECT coalesce(bool_or(n.pnnspid = $2), false), $3 OR coalesce(bool_or(n.pnnspid <> $2), false)
                     FROM pg_publication_namespace AS n WHERE n.pnpubid = $1'
            INTO has_schema, has_other USING publication.oid, (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = events), has_other;
        END IF;
        has_table := has_table OR has_schema OR coalesce(publication.puballtables, false);
        has_other := has_other OR coalesce(publication.puballtables, false);
        IF has_table AND publication.pubinsert AND NOT is_partial THEN
            RETURN 'exists';
        END IF;
        is_own := obj_description(publication.oid, 'pg_publication') = mark;
        IF publication.oid IS NOT NULL AND is_own IS NOT TRUE OR has_other AND NOT (has_table AND publication.pubinsert) THEN
            RAISE EXCEPTION 'publication % belongs to something else', name
                USING ERRCODE = 'duplicate_object',
                      DETAIL = 'It does not publish whole rows of every insert into outbox.events.',
                      HINT = 'Choose another name, or let it publish them.';
        END IF;
        -- One relay at a time makes or repairs the publication. Another may have done so while this one waited for the lock.
        IF attempt = 1 THEN
            LOCK TABLE outbox.events IN SHARE UPDATE EXCLUSIVE MODE;
        END IF;
    END LOOP;

    -- PostgreSQL's own words would not say which role lacks the right: this function acts as the owner of the table.
    IF publication.oid IS NULL AND NOT has_database_privilege(current_database(), 'CREATE') THEN
        RAISE EXCEPTION 'the owner of outbox.events, %, may not make a publication in this database', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('As the owner of the database: GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user);
    END IF;
    IF NOT pg_has_role(publication.pubowner, 'USAGE') THEN
        RAISE EXCEPTION 'publication % belongs to %, and not to the owner of outbox.events', name, publication.pubowner::regrole
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('As a superuser: ALTER PUBLICATION %I OWNER TO %I;', name, current_user);
    END IF;

    IF publication.oid IS NULL THEN
        EXECUTE format('CREATE PUBLICATION %I FOR TABLE outbox.events WITH (publish = ''insert'')', name);
        EXECUTE format('COMMENT ON PUBLICATION %I IS %L', name, mark);
        RETURN 'created';
    END IF;
    IF is_partial THEN
        EXECUTE format('ALTER PUBLICATION %I DROP TABLE outbox.events', name);
    END IF;
    IF is_partial OR NOT has_table THEN
        EXECUTE format('ALTER PUBLICATION %I ADD TABLE outbox.events', name);
    END IF;
    IF NOT has_other THEN
        EXECUTE format('ALTER PUBLICATION %I SET (publish = ''insert'')', name);
    END IF;
    RETURN 'repaired';
END
$$;
COMMENT ON FUNCTION outbox.ensure_publication(text) IS 'Relay: makes or repairs its publication.';
