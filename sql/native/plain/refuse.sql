-- Raises the error for an event that outbox.admit() refuses. The event's values come one by one: a whole row would at times be a
-- partition's, which is another type.
CREATE OR REPLACE FUNCTION outbox.refuse(
    topic text, event_type text, aggregate_type text, aggregate_id text, correlation_id text, exchange text,
    content_type text, payloads integer
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    given record;
BEGIN
    IF refuse.topic IS NULL THEN
        RAISE EXCEPTION 'topic must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Give the routing key, for example ''orders.created''.';
    END IF;
    FOR given IN
        SELECT argument, value, bytes
        FROM (VALUES
            ('topic', refuse.topic),
            ('event_type', refuse.event_type),
            ('aggregate_type', refuse.aggregate_type),
            ('aggregate_id', refuse.aggregate_id),
            ('correlation_id', refuse.correlation_id),
            ('exchange', refuse.exchange),
            ('content_type', refuse.content_type)
        ) AS v (argument, value)
        -- What is too long as it is need not be text.
        CROSS JOIN LATERAL (SELECT CASE WHEN octet_length(value) > 255 THEN octet_length(value) ELSE outbox.utf8_bytes(value) END)
            AS size (bytes)
        WHERE bytes NOT BETWEEN 1 AND 255
    LOOP
        IF given.value = '' THEN
            RAISE EXCEPTION '% must not be empty', given.argument
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = CASE given.argument
                          WHEN 'topic' THEN 'Give the routing key, for example ''orders.created''.'
                          ELSE 'Leave it out, or give null.'
                      END;
        END IF;
        RAISE EXCEPTION '% is % bytes long, the limit is 255', given.argument, given.bytes
            USING ERRCODE = 'string_data_right_truncation',
                  DETAIL = 'AMQP carries it as a short string, which holds 255 bytes of UTF-8.',
                  HINT = 'Shorten it, or put it into the payload.';
    END LOOP;
    IF payloads = 0 THEN
        RAISE EXCEPTION 'payload must not be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'For an event without data give ''{}''.';
    END IF;
    IF payloads = 2 THEN
        RAISE EXCEPTION 'payload and payload_bytes must not both be given'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give JSON as payload, or bytes as payload_bytes.';
    END IF;
    RAISE EXCEPTION 'available_at must not be infinity'
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a time that comes, or leave it out.';
END
$$;
COMMENT ON FUNCTION outbox.refuse(text, text, text, text, text, text, text, integer) IS 'Says what is wrong with an event.';
