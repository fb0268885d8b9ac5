-- From 0.1.0 to 0.2.0, what only the plain SQL has: functions that are Rust in the extension. Frozen.

-- Returns the bytes that a text has as the relay is sent it, without the extension, which does the same in Rust
-- (outbox_ext/src/postgres/encoding.rs): PostgreSQL sends the texts of a database in UTF-8 or SQL_ASCII as they are, and converts
-- those of any other encoding. The function is inlined into the call.
CREATE OR REPLACE FUNCTION outbox.utf8_bytes(value text) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN octet_length(value)
    ELSE octet_length(convert_to(value, 'UTF8')) END;
COMMENT ON FUNCTION outbox.utf8_bytes(text) IS 'Size of a text in UTF-8.';
-- Returns the bytes of a JSON value as text, which is what is sent. A value larger than any message (128 MB) counts as one byte
-- more than that.
--
-- PostgreSQL keeps 1e131071 in 8 bytes and prints it in 131,072, so a value that is not small is printed only once its
-- numbers are known to be short. numeric_send() contains a number's weight: one less than its digits to base 10,000
-- before the point.
CREATE OR REPLACE FUNCTION outbox.printed_bytes(document jsonb) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    max_bytes CONSTANT bigint := 128 * 1024 * 1024;
    stored_bytes integer := pg_column_size(document #> '{}'); -- unpacked
BEGIN
    IF stored_bytes > 8192 AND (
        SELECT sum(scale(number) + CASE WHEN weight < 32768 THEN 4 * (weight + 1) ELSE 1 END) -- unsigned: below 1
        FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "number")') AS item,
            CAST(item AS numeric) AS number,
            numeric_send(number) AS sent,
            CAST(256 * get_byte(sent, 2) + get_byte(sent, 3) AS integer) AS weight
    ) > 2 * max_bytes THEN
        RETURN max_bytes + 1;
    END IF;
    IF stored_bytes < max_bytes / 2 THEN
        RETURN least(outbox.utf8_bytes(document::text), max_bytes + 1);
    END IF;
    BEGIN
        RETURN least(outbox.utf8_bytes(document::text), max_bytes + 1);
    EXCEPTION WHEN program_limit_exceeded THEN -- over 1 GB: a control character is printed in six bytes
        RETURN max_bytes + 1;
    END;
END
$$;
COMMENT ON FUNCTION outbox.printed_bytes(jsonb) IS 'Size of JSON as text.';
-- Returns the bytes that headers take as an AMQP table, with the longest and the shortest name in them and the depth of nesting,
-- without the extension, which does the same in Rust.
--
-- A field is its name (a length byte and the text), a type byte and the value; numbers take 8 bytes, text and containers
-- a length of 4 bytes before their content.
CREATE OR REPLACE FUNCTION outbox.header_size(
    headers jsonb, OUT bytes bigint, OUT longest_name text, OUT shortest_name text, OUT depth integer
)
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE value (depth, name, item) AS (
        SELECT 1, NULL::text, headers
        UNION ALL
        SELECT parent.depth + CASE WHEN jsonb_typeof(child.item) IN ('object', 'array') THEN 1 ELSE 0 END,
               child.name, child.item
        FROM value AS parent
        CROSS JOIN LATERAL (
            SELECT field.key, field.value
            FROM jsonb_each(CASE jsonb_typeof(parent.item) WHEN 'object' THEN parent.item END) AS field
            UNION ALL
            SELECT NULL, element.value
            FROM jsonb_array_elements(CASE jsonb_typeof(parent.item) WHEN 'array' THEN parent.item END) AS element
        ) AS child (name, item)
        WHERE parent.depth <= 65 -- one more than admitted
    )
    SELECT sum(
               CASE WHEN name IS NULL THEN 0 ELSE 1 + outbox.utf8_bytes(name) END
               + CASE jsonb_typeof(item)
                     WHEN 'null' THEN 1
                     WHEN 'boolean' THEN 2
                     WHEN 'number' THEN 9
                     WHEN 'string' THEN 5 + outbox.utf8_bytes(item #>> '{}')
                     ELSE 5
                 END
           ) - 1, -- the outermost table has no type byte
           (array_agg(name ORDER BY outbox.utf8_bytes(name) DESC) FILTER (WHERE name IS NOT NULL))[1],
           (array_agg(name ORDER BY outbox.utf8_bytes(name)) FILTER (WHERE name IS NOT NULL))[1],
           max(depth)
    FROM value
$$;
COMMENT ON FUNCTION outbox.header_size(jsonb) IS 'Size of headers as an AMQP table, with their longest and shortest name.';
-- Refuses headers that AMQP cannot carry (outbox_ext/src/headers.rs has the reasons for the numbers).
--
-- Most headers are so short that no limit can be near; those are not measured.
CREATE OR REPLACE FUNCTION outbox.check_headers(headers jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    printed_bytes bigint;
    size record;
    header text;
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'headers must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example ''{"tenant": "acme"}''.';
    END IF;
    printed_bytes := outbox.printed_bytes(headers);
    IF printed_bytes > 65536 THEN
        RAISE EXCEPTION 'headers are % bytes, the limit is 65536',
                CASE WHEN printed_bytes > 134217728 THEN 'more than 134217728' ELSE printed_bytes::text END
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'They are counted as JSON text.',
                  HINT = 'Put the data into the payload.';
    END IF;
    FOREACH header IN ARRAY ARRAY['CC', 'BCC'] LOOP
        IF jsonb_typeof(headers -> header) <> 'array' THEN
            RAISE EXCEPTION 'the header % must be an array', header
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = 'RabbitMQ takes it for routing keys by which it sends copies.',
                      HINT = 'For example ''{"CC": ["orders.copy"]}''; or give the header another name.';
        END IF;
    END LOOP;
    IF printed_bytes <= 128 AND headers::text NOT LIKE '%"":%' THEN
        RETURN;
    END IF;

    size := outbox.header_size(headers);
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
    -- The largest double.
    SELECT field.key INTO header
    FROM jsonb_each(headers) WITH ORDINALITY AS field (key, value, number)
    WHERE jsonb_path_exists(
        field.value, 'strict $.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)')
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
COMMENT ON FUNCTION outbox.check_headers(jsonb) IS 'Refuses headers that AMQP cannot carry.';
-- The settings of a session that its events carry. The extension checks them when they are set; without it PostgreSQL takes
-- any text, and an event that would carry it is refused.
CREATE OR REPLACE FUNCTION outbox.context_correlation_id() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := current_setting('outbox.correlation_id');
BEGIN
    IF octet_length(setting) > 255 OR getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') AND outbox.utf8_bytes(setting) > 255 THEN
        RAISE EXCEPTION 'correlation_id is % bytes long, the limit is 255',
                CASE WHEN octet_length(setting) > 255 THEN octet_length(setting) ELSE outbox.utf8_bytes(setting) END
            USING ERRCODE = 'string_data_right_truncation',
                  DETAIL = 'It was taken from the setting outbox.correlation_id.',
                  HINT = 'Shorten the setting, or give correlation_id.';
    END IF;
    PERFORM convert_to(setting, 'UTF8');
    RETURN setting;
EXCEPTION WHEN character_not_in_repertoire THEN
    RAISE EXCEPTION 'correlation_id is not valid UTF-8'
        USING ERRCODE = 'character_not_in_repertoire',
              DETAIL = 'It was taken from the setting outbox.correlation_id.',
              HINT = 'Change the setting, or give correlation_id.';
END
$$;
COMMENT ON FUNCTION outbox.context_correlation_id() IS 'The setting outbox.correlation_id, checked.';

-- W3C Trace Context: version, trace id, parent id and flags, neither id being all zeros; a later version than today's may have more behind them.
CREATE OR REPLACE FUNCTION outbox.context_traceparent() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := current_setting('outbox.traceparent');
BEGIN
    IF octet_length(setting) > 255
        OR setting !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?$'
        OR setting LIKE '00%' AND octet_length(setting) <> 55
    THEN
        RAISE EXCEPTION 'the setting outbox.traceparent is not a traceparent'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'W3C Trace Context: version, trace id, parent id and flags, in lower-case hexadecimal.',
                  HINT = 'For example ''00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01''.';
    END IF;
    PERFORM outbox.check_utf8('headers', setting); -- a last character that is cut off does not show in a regular expression
    RETURN setting;
END
$$;
COMMENT ON FUNCTION outbox.context_traceparent() IS 'The setting outbox.traceparent, checked.';
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
-- outbox.admit() without the extension, which has it in Rust (outbox_ext/src/admit.rs): the trigger that checks and
-- completes every new event, by the same rules and with the same errors.
CREATE OR REPLACE FUNCTION outbox.admit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER -- for the functions it calls
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- A row that is new has this transaction's time. Any other row is being restored: it is kept as it was, but for the
    -- limits that no row may break. Only the owner can give created_at, so nobody else can pass for a restore. Rows that
    -- logical replication brings are kept as they were, too.
    is_new boolean := new.created_at = now() AND current_setting('session_replication_role') <> 'replica';
    traceparent text;
    payload_size bigint;
BEGIN
    IF new.topic IS NULL
        OR octet_length(new.topic) NOT BETWEEN 1 AND 255
        OR (new.payload IS NULL) = (new.payload_bytes IS NULL)
        OR octet_length(new.event_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.correlation_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.exchange) NOT BETWEEN 1 AND 255
        OR octet_length(new.content_type) NOT BETWEEN 1 AND 255
        OR new.available_at = 'infinity'
    THEN
        PERFORM outbox.refuse(new.topic, new.event_type, new.aggregate_type, new.aggregate_id, new.correlation_id,
                              new.exchange, new.content_type, num_nonnulls(new.payload, new.payload_bytes));
    END IF;
    -- In another encoding a text may be longer as it is sent.
    IF getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') THEN
        IF greatest(outbox.utf8_bytes(new.topic), outbox.utf8_bytes(new.event_type), outbox.utf8_bytes(new.aggregate_type),
                    outbox.utf8_bytes(new.aggregate_id), outbox.utf8_bytes(new.correlation_id),
                    outbox.utf8_bytes(new.exchange), outbox.utf8_bytes(new.content_type)) > 255
        THEN
            PERFORM outbox.refuse(new.topic, new.event_type, new.aggregate_type, new.aggregate_id, new.correlation_id,
                                  new.exchange, new.content_type, 1);
        END IF;
    END IF;
    payload_size := coalesce(octet_length(new.payload_bytes), outbox.printed_bytes(new.payload));
    IF is_new THEN
        PERFORM outbox.check_payload_size(payload_size);
    ELSIF payload_size > 134217728 THEN
        RAISE EXCEPTION 'payload is more than 134217728 bytes, the limit is 134217728'
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'No RabbitMQ takes a larger message by default.',
                  HINT = 'Leave this event out.';
    END IF;
    IF new.headers IS NOT NULL THEN
        PERFORM outbox.check_headers(new.headers);
    END IF;
    BEGIN
        -- Converts all at once, which is quicker. The blank between two texts keeps the second from completing half a
        -- character at the end of the first.
        PERFORM convert_to(concat_ws(' ', new.topic, new.event_type, new.aggregate_type, new.aggregate_id,
            new.correlation_id, new.exchange, new.content_type, new.headers, new.payload), 'UTF8');
    EXCEPTION WHEN character_not_in_repertoire THEN
        PERFORM outbox.check_utf8(given.argument, given.value)
        FROM (VALUES
            ('topic', new.topic),
            ('payload', new.payload::text),
            ('event_type', new.event_type),
            ('aggregate_type', new.aggregate_type),
            ('aggregate_id', new.aggregate_id),
            ('headers', new.headers::text),
            ('correlation_id', new.correlation_id),
            ('exchange', new.exchange),
            ('content_type', new.content_type)
        ) AS given (argument, value);
    END;
    IF new.payload_bytes IS NOT NULL AND new.content_type IS NULL THEN
        new.content_type := 'application/octet-stream';
    END IF;

    IF is_new THEN
        IF current_setting('outbox.traceparent', true) <> '' AND (new.headers ? 'traceparent') IS NOT TRUE THEN
            traceparent := outbox.context_traceparent();
            new.headers := coalesce(new.headers, '{}') || jsonb_build_object('traceparent', traceparent);
            PERFORM outbox.check_headers(new.headers);
        END IF;
        IF current_setting('outbox.correlation_id', true) <> '' AND new.correlation_id IS NULL THEN
            new.correlation_id := outbox.context_correlation_id();
        END IF;
        IF new.available_at <= now() THEN
            new.available_at := NULL;
        END IF;
    END IF;
    RETURN new;
END
$$;
