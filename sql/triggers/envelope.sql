-- The envelope of an event never changes: consumers know its id, and its body may be out already.
--
-- An UPDATE that writes the same values, as from an ORM that saves whole objects, is no change; JSON is the same if its text is. An
-- UPDATE that sets none of these columns, such as the relay's, pays nothing: UPDATE OF decides by name. The status trigger guards
-- available_at, because the relay sets it when it will try again.
CREATE OR REPLACE FUNCTION outbox.refuse_envelope_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    SELECT c.name INTO changed FROM (VALUES
        ('aggregate_id', old.aggregate_id::text, new.aggregate_id::text),
        ('aggregate_type', old.aggregate_type::text, new.aggregate_type::text),
        ('content_type', old.content_type::text, new.content_type::text),
        ('correlation_id', old.correlation_id::text, new.correlation_id::text),
        ('created_at', old.created_at::text, new.created_at::text),
        ('event_type', old.event_type::text, new.event_type::text),
        ('exchange', old.exchange::text, new.exchange::text),
        ('headers', old.headers::text, new.headers::text),
        ('id', old.id::text, new.id::text),
        ('payload', old.payload::text, new.payload::text),
        ('payload_bytes', old.payload_bytes::text, new.payload_bytes::text),
        ('seq', old.seq::text, new.seq::text),
        ('topic', old.topic::text, new.topic::text)
    ) AS c (name, was, becomes)
    WHERE c.was IS DISTINCT FROM c.becomes
    LIMIT 1;

    RAISE EXCEPTION '% of event % cannot be changed', changed, old.id
        USING ERRCODE = 'check_violation',
              DETAIL = 'The envelope of an event is final.',
              HINT = 'Emit a new event.',
              SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
END
$$;

CREATE OR REPLACE TRIGGER envelope_is_final
    BEFORE UPDATE OF id, seq, created_at, topic, exchange, event_type, aggregate_type, aggregate_id, payload,
        payload_bytes, content_type, headers, correlation_id ON outbox.events
    FOR EACH ROW
    WHEN (
        (old.id, old.seq, old.created_at, old.topic, old.exchange, old.event_type, old.aggregate_type, old.aggregate_id,
         old.payload::text, old.payload_bytes, old.content_type, old.headers::text, old.correlation_id)
        IS DISTINCT FROM
        (new.id, new.seq, new.created_at, new.topic, new.exchange, new.event_type, new.aggregate_type, new.aggregate_id,
         new.payload::text, new.payload_bytes, new.content_type, new.headers::text, new.correlation_id)
    )
    EXECUTE FUNCTION outbox.refuse_envelope_change();

-- ALWAYS, as admit is: an UPDATE must not bring in what an INSERT may not.
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER envelope_is_final;
