-- Refuses a text that is not UTF-8: PostgreSQL does not check the bytes of settings that a session starts with, so a text
-- made of them can be anything. convert_to() does check.
CREATE OR REPLACE FUNCTION outbox.check_utf8(argument text, value text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM convert_to(value, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire THEN
    RAISE EXCEPTION '% is not valid UTF-8', argument
        USING ERRCODE = 'character_not_in_repertoire', HINT = 'Bytes that are no text can be the payload, as bytea.';
END
$$;
COMMENT ON FUNCTION outbox.check_utf8(text, text) IS 'Refuses a text that is not UTF-8.';
