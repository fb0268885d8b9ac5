-- The table is written anew, which calls what somebody has added to it: with the rights of the superuser who upgrades.
DO $$
DECLARE
    owner text := (
        SELECT r.rolname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) c.relowner
        WHERE c.oid OPERATOR(pg_catalog.=) 'outbox.events'::pg_catalog.regclass AND NOT r.rolsuper
    );
BEGIN
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'outbox.events belongs to %, whose code would run with your rights', quote_ident(owner)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('Look at what was added to the table. Then ALTER TABLE outbox.events OWNER TO %I; upgrade, and give it back.', current_user);
    END IF;
END
$$;

-- Remembers what the table has that the extension has not made, for dump.sql.
DO $$
BEGIN
    PERFORM set_config('quote_all_identifiers', 'off', true); -- the earlier version's function does not do so itself
    PERFORM set_config('outbox_upgrade.added', ARRAY(
        SELECT outbox.table_makeup('outbox.events'::regclass) EXCEPT ALL SELECT unnest(outbox.table_makeup_of_extension())
    )::text, true);
END
$$;
