-- Refuses headers that AMQP cannot carry (outbox_ext/src/headers.rs has the reasons for the numbers).
--
-- Most headers are so short that no limit can be near; those are not measured.
CREATE OR REPLACE FUNCTION outbox.check_headers(headers json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bigint := outbox.utf8_bytes(headers::text);
    parsed jsonb;
    size record;
    header text;
BEGIN
    IF json_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'headers must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example ''{"tenant": "acme"}''.';
    END IF;
    IF bytes > 65536 THEN
        RAISE EXCEPTION 'headers are % bytes, the limit is 65536',
                CASE WHEN bytes > 134217728 THEN 'more than 134217728' ELSE bytes::text END
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'They are counted as JSON text.',
                  HINT = 'Put the data into the payload.';
    END IF;
    parsed := headers::jsonb;
    SELECT field.key INTO header
    FROM json_each(headers) WITH ORDINALITY AS field (key, value, number)
    WHERE field.key IN ('CC', 'BCC') AND json_typeof(field.value) <> 'array'
    ORDER BY field.number
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the header % must be an array', header
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'RabbitMQ takes it for routing keys by which it sends copies.',
                  HINT = 'For example ''{"CC": ["orders.copy"]}''; or give the header another name.';
    END IF;
    IF bytes <= 128 AND octet_length(parsed::text) <= 128 AND parsed::text NOT LIKE '%"":%' THEN
        RETURN;
    END IF;

    size := outbox.header_size(parsed);
    IF size.shortest_name = '' THEN
        RAISE EXCEPTION 'headers must not have an empty name'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name every header, also in objects within headers.';
    END IF;
    IF outbox.utf8_bytes(size.longest_name) > 255 THEN
        RAISE EXCEPTION 'headers has a name of % bytes, the limit is 255', outbox.utf8_bytes(size.longest_name)
            USING ERRCODE = 'string_data_right_truncation',
                  DETAIL = format('The name begins with "%s".', left(size.longest_name, 40)),
                  HINT = 'Shorten it, or put it into the payload.';
    END IF;
    IF size.depth > 64 THEN
        RAISE EXCEPTION 'headers are nested deeper than 64 levels'
            USING ERRCODE = 'program_limit_exceeded', HINT = 'Put the data into the payload.';
    END IF;
    IF size.bytes > 65536 THEN
        RAISE EXCEPTION 'headers are % bytes, the limit is 65536', size.bytes
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'They are counted as an AMQP table; all headers of a message must fit into one frame.',
                  HINT = 'Put the data into the payload.';
    END IF;
    -- What is rounded to no double.
    SELECT field.key INTO header
    FROM json_each(headers) WITH ORDINALITY AS field (key, value, number)
    WHERE jsonb_path_exists(
        field.value::jsonb, 'strict $.** ? (@ > 1.797693134862315807e308 || @ < -1.797693134862315807e308)')
    ORDER BY field.number
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'headers has a number that no double holds'
            USING ERRCODE = 'numeric_value_out_of_range',
                  DETAIL = format('It is in the header that begins with "%s".', left(header, 40)),
                  HINT = 'Give it as text, or put it into the payload.';
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.check_headers(json) IS 'Refuses headers that AMQP cannot carry.';
