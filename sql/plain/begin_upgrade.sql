-- The role that owns the outbox runs this. Nothing in the schema is called before that is known.
DO $$
DECLARE
    owner text := (SELECT relowner::regrole FROM pg_class WHERE oid = to_regclass('outbox.events'));
BEGIN
    IF owner IS NULL THEN
        RAISE EXCEPTION 'there is no outbox in database "%"', current_database()
            USING ERRCODE = 'undefined_table', HINT = 'outbox-0.3.0.sql, or sql/outbox.sql by psql, installs one.';
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox') THEN
        RAISE EXCEPTION 'the outbox in this database is the extension'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'ALTER EXTENSION outbox UPDATE;';
    END IF;
    IF owner <> quote_ident(current_user) THEN -- what is new would belong to somebody else
        RAISE EXCEPTION 'the outbox belongs to %, and this is %', owner, quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Log in as %s for this script, so that its functions, which are called, have no rights but its own.', owner);
    END IF;
    IF session_user <> current_user AND (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = session_user) THEN
        RAISE EXCEPTION 'this session is % as %, who is a superuser', quote_ident(current_user), quote_ident(session_user)
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = format('Functions of %s are called here. They could take the superuser''s rights by RESET ROLE.', owner),
                  HINT = format('Log in as %s for this script.', owner);
    END IF;
    IF outbox.version() = '0.3.0' THEN
        RAISE EXCEPTION 'this is outbox 0.3.0 already'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'There is nothing left to do.';
    END IF;
    IF outbox.version() NOT IN ('0.1.0', '0.2.0') THEN
        RAISE EXCEPTION 'this is outbox %, and the script upgrades 0.1.0 and 0.2.0', outbox.version()
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Take the script of the version to which you upgrade.';
    END IF;
END
$$;
