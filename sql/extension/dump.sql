-- pg_dump writes CREATE EXTENSION for a table that belongs to an extension, and its rows, but nothing that was added to it: an
-- index, a trigger, a CHECK is gone after a restore, and if a column was added, the rows do not go in at all. So an addition is
-- refused when it is made, unless the session says that it knows. (The table of sql/outbox.sql is an ordinary one.)
--
-- Changes that survive are let pass: other tables that refer to this one or inherit from it, privileges, publications. So are
-- changes that tune or operate the table: storage parameters, switched-off triggers, the replica identity.

-- Returns the parts of the table that a restore makes again, in words for the error. Defaults are written as PostgreSQL writes
-- them.
CREATE OR REPLACE FUNCTION outbox.table_makeup(events oid) RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off -- the words are compared with those of the installation
AS $$
    SELECT format('table name %s.%s', n.nspname, c.relname)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = table_makeup.events
    UNION ALL
    SELECT concat_ws(' ', 'column', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN 'not null' END, CASE WHEN a.attgenerated <> '' THEN 'generated' END,
        CASE WHEN a.attidentity <> '' THEN 'identity' END, 'default ' || pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = table_makeup.events AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    -- NOT NULL, which is a constraint from PostgreSQL 18 on, is written with its column.
    SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE conrelid = table_makeup.events AND contype <> 'n'
    UNION ALL
    SELECT 'row level security' FROM pg_class WHERE oid = table_makeup.events AND (relrowsecurity OR relforcerowsecurity)
    UNION ALL
    SELECT format('inheritance from %s', inhparent::regclass) FROM pg_inherits WHERE inhrelid = table_makeup.events
$$;

-- What the extension has made of the table. An upgrade leaves out what it found there that was not the extension's (begin_upgrade.sql).
DO $$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION outbox.table_makeup_of_extension() RETURNS text[] LANGUAGE sql IMMUTABLE RETURN %L::text[]',
        ARRAY(
            SELECT outbox.table_makeup('outbox.events'::pg_catalog.regclass)
            EXCEPT ALL SELECT unnest(coalesce(nullif(current_setting('outbox_upgrade.added', true), ''), '{}')::text[])
        )
    );
END
$$;

CREATE OR REPLACE FUNCTION outbox.refuse_undumped_change() RETURNS event_trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    events oid;
    added text;
BEGIN
    IF lower(current_setting('outbox.allow_undumped_changes', true)) IN ('on', 'true', 'yes', '1') THEN
        RETURN;
    END IF;
    -- Finds the table under whatever name it has: it is the first that the extension has dumped.
    SELECT e.extconfig[1] INTO events FROM pg_extension AS e WHERE e.extname = 'outbox';

    SELECT string_agg(DISTINCT format('%s %s', c.object_type, c.object_identity), ', ') INTO added
    FROM pg_event_trigger_ddl_commands() AS c
    WHERE NOT c.in_extension AND events IN (
        SELECT indrelid FROM pg_index WHERE c.classid = 'pg_class'::regclass AND indexrelid = c.objid
        UNION ALL SELECT tgrelid FROM pg_trigger WHERE c.classid = 'pg_trigger'::regclass AND oid = c.objid
        UNION ALL SELECT ev_class FROM pg_rewrite WHERE c.classid = 'pg_rewrite'::regclass AND oid = c.objid
        UNION ALL SELECT polrelid FROM pg_policy WHERE c.classid = 'pg_policy'::regclass AND oid = c.objid
        UNION ALL SELECT stxrelid FROM pg_statistic_ext WHERE c.classid = 'pg_statistic_ext'::regclass AND oid = c.objid
    );
    IF added IS NULL AND EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() AS c
        WHERE NOT c.in_extension AND c.classid = 'pg_class'::regclass
          AND (c.objid = events OR c.objid IN (SELECT inhparent FROM pg_inherits WHERE inhrelid = events))
    ) THEN
        SELECT string_agg(made, ', ') INTO added
        FROM (SELECT outbox.table_makeup(events) EXCEPT ALL SELECT unnest(outbox.table_makeup_of_extension())) AS m (made);
    END IF;

    IF added IS NOT NULL THEN
        RAISE EXCEPTION 'outbox.events belongs to an extension: pg_dump would lose %', added
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'A dump has CREATE EXTENSION and the rows, but nothing that was added to the table. With a column more, '
                      'not one row can be restored.',
                  HINT = 'Keep it in a table of your own, keyed by the event''s id, or install by sql/outbox.sql, whose table is dumped '
                      'as a whole. If you make it again by hand before rows are restored: SET outbox.allow_undumped_changes = on.'
                      || CASE WHEN tg_tag = 'CREATE INDEX' THEN ' An index that was made CONCURRENTLY has to be dropped.' ELSE '' END;
    END IF;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'outbox_undumped_changes') THEN
        CREATE EVENT TRIGGER outbox_undumped_changes ON ddl_command_end
            WHEN TAG IN ('ALTER TABLE', 'CREATE INDEX', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE POLICY', 'CREATE STATISTICS')
            EXECUTE FUNCTION outbox.refuse_undumped_change();
        ALTER EVENT TRIGGER outbox_undumped_changes ENABLE ALWAYS; -- tools that restore set session_replication_role
    END IF;
END
$$;

-- pg_dump leaves out the rows of a table that belongs to an extension, unless the extension asks for them.
SELECT pg_catalog.pg_extension_config_dump('outbox.events', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.events_seq_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit_id_seq', '');
