-- The role that runs this script owns the schema, and needs CREATE on the database.
DO $$
DECLARE
    owner text := (SELECT n.nspowner::regrole FROM pg_namespace AS n WHERE n.nspname = 'outbox');
BEGIN
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'schema "outbox" already exists'
            USING ERRCODE = 'duplicate_schema',
                  DETAIL = format('It belongs to role %s.', owner),
                  HINT = format('%1$sdt outbox.* and %1$sdf+ outbox.* show in psql what is in it, and whose it is. Call nothing in it unless '
                                'you trust that role. If the schema is empty: DROP SCHEMA outbox;', chr(92)); -- a backslash, whatever it is in a string
    END IF;
END
$$;
DO $$
BEGIN
    CREATE SCHEMA outbox;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'another session has just made schema "outbox"' USING ERRCODE = 'duplicate_schema';
END
$$;
