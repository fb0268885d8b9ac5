-- Refuses, of a new event, what RabbitMQ or one of its plugins cannot bear (outbox_ext/src/reserved.rs has the reasons).
--
-- Most headers have no name that could be meant; those are not looked at one by one.
CREATE OR REPLACE FUNCTION outbox.check_reserved(headers json, event_type text, correlation_id text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bad record;
BEGIN
    IF event_type = 'amqp-1.0' THEN
        RAISE EXCEPTION 'event_type must not be amqp-1.0'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'RabbitMQ takes the payload of such a message for encoded AMQP 1.0.',
                  HINT = 'Give the type another name.';
    END IF;
    -- As many bytes as a uuid has in text: RabbitMQ 4 looks at no other.
    IF correlation_id LIKE 'urn:uuid:%' AND outbox.utf8_bytes(correlation_id) = 45
        AND correlation_id !~ '^urn:uuid:[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
    THEN
        RAISE EXCEPTION 'correlation_id must have a uuid behind urn:uuid:'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'RabbitMQ reads it, and closes connections over anything else.',
                  HINT = 'For example ''urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6''; or leave out urn:uuid:.';
    END IF;
    IF headers IS NULL OR headers::jsonb::text !~ '"(x-|content-encoding")' THEN
        RETURN;
    END IF;

    SELECT field.key AS name, rule.must INTO bad
    FROM json_each(headers) WITH ORDINALITY AS field (key, value, number)
    CROSS JOIN LATERAL (SELECT json_typeof(value), value #>> '{}') AS given (type, text)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN key ~ '^x-(death|delivery-count|invalid-headers|received-from|stream-offset)$'
            OR key ~ '^x-(amqp-1[.]0|basic|mqtt)-' THEN 'not be there'
        WHEN key = 'x-cache-ttl' AND type <> 'number' THEN 'be a number'
        WHEN key = 'x-delay' AND type <> 'number' AND (type <> 'string' OR text !~ '^[0-9]{1,18}$') THEN 'be a number'
        WHEN key IN ('x-correlation-id', 'x-reply-to-topic') AND type <> 'string' THEN 'be a text'
        WHEN key = 'x-stream-filter-value' AND (type <> 'string' OR outbox.utf8_bytes(text) > 4096) THEN 'be a text of at most 4096 bytes'
        WHEN key = 'x-deduplication-header' AND type NOT IN ('string', 'number', 'boolean') THEN 'be a text, a number or a boolean'
        WHEN key = 'content-encoding' AND (type <> 'string' OR text !~ '^[A-Za-z0-9!#$%&''*+.^_`|~, -]{1,255}$')
            THEN 'be the name of an encoding'
    END) AS rule (must)
    WHERE rule.must IS NOT NULL
    ORDER BY field.number
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    ELSIF bad.must = 'not be there' THEN
        RAISE EXCEPTION 'the header % is RabbitMQ''s own', left(bad.name, 40)
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'RabbitMQ or one of its plugins writes it, and what others write there can crash queues and consumers.',
                  HINT = 'Leave it out, or give the header another name.';
    ELSIF bad.name = 'content-encoding' THEN
        RAISE EXCEPTION 'the header content-encoding must be the name of an encoding'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'It becomes the AMQP property content_encoding.',
                  HINT = 'For example ''{"content-encoding": "gzip"}''.';
    END IF;
    RAISE EXCEPTION 'the header % must %', bad.name, bad.must
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'RabbitMQ or one of its plugins reads it, and closes connections over anything else.',
              HINT = 'Give such a value, or give the header another name.';
END
$$;
COMMENT ON FUNCTION outbox.check_reserved(json, text, text) IS 'Refuses headers that only RabbitMQ writes, and values that it cannot bear.';
