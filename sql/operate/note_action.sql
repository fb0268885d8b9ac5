-- Called with the rights of the table's owner, by the functions that operators call. The setting can be anything that a session started
-- with, so it is looked at before it is written.
CREATE OR REPLACE FUNCTION outbox.note_action(action text, filter jsonb, events bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    named text := nullif(current_setting('outbox.operator', true), '');
BEGIN
    IF octet_length(named) > 255 THEN
        RAISE EXCEPTION 'the setting outbox.operator is % bytes long, the limit is 255', octet_length(named)
            USING ERRCODE = 'string_data_right_truncation', HINT = 'It is a name, for outbox.audit.';
    END IF;
    PERFORM convert_to(named, 'UTF8'); -- refuses what is no text
    INSERT INTO outbox.audit (action, filter, events, who)
    VALUES (note_action.action, jsonb_strip_nulls(note_action.filter), note_action.events, named);
END
$$;
COMMENT ON FUNCTION outbox.note_action(text, jsonb, bigint) IS 'Internal to replay(), replay_many() and release(): writes a row of outbox.audit.';
