-- Says what is wrong with an event that outbox.admit() found wrong.
CREATE FUNCTION outbox.refuse(event outbox.events) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    given record;
BEGIN
    IF event.topic IS NULL THEN
        RAISE EXCEPTION 'topic must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Give the routing key, for example ''orders.created''.';
    END IF;
    FOR given IN
        SELECT * FROM (VALUES
            ('topic', event.topic),
            ('event_type', event.event_type),
            ('aggregate_type', event.aggregate_type),
            ('aggregate_id', event.aggregate_id),
            ('correlation_id', event.correlation_id),
            ('exchange', event.exchange),
            ('content_type', event.content_type)
        ) AS v (argument, value) WHERE octet_length(value) NOT BETWEEN 1 AND 255
    LOOP
        IF given.value = '' THEN
            RAISE EXCEPTION '% must not be empty', given.argument
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = CASE given.argument
                          WHEN 'topic' THEN 'Give the routing key, for example ''orders.created''.'
                          ELSE 'Leave it out, or give null.'
                      END;
        END IF;
        RAISE EXCEPTION '% is % bytes long, the limit is 255', given.argument, octet_length(given.value)
            USING ERRCODE = 'string_data_right_truncation',
                  DETAIL = 'AMQP carries it as a short string, which holds 255 bytes of UTF-8.',
                  HINT = 'Shorten it, or put it into the payload.';
    END LOOP;
    IF event.payload IS NULL AND event.payload_bytes IS NULL THEN
        RAISE EXCEPTION 'payload must not be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'For an event without data give ''{}''.';
    END IF;
    IF event.payload IS NOT NULL AND event.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION 'payload and payload_bytes must not both be given'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give JSON as payload, or bytes as payload_bytes.';
    END IF;
    RAISE EXCEPTION 'available_at must not be infinity'
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a time that comes, or leave it out.';
END
$$;
COMMENT ON FUNCTION outbox.refuse(outbox.events) IS 'Says what is wrong with an event.';
