-- Installs the outbox without the extension, where none can be installed, as on managed PostgreSQL.
--
--     psql -d mydb -f sql/install.sql
--
-- The role that runs this script owns the schema, and needs CREATE on the database. The relay works with this schema as it does
-- with the extension's. The script is one transaction: it installs everything, or nothing.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp; -- what others may have put into public is not looked up
DO $$
BEGIN
    IF to_regnamespace('outbox') IS NOT NULL THEN
        RAISE EXCEPTION 'schema "outbox" already exists'
            USING ERRCODE = 'duplicate_schema',
                  HINT = 'SELECT outbox.version(); tells whether the outbox is installed. If the schema is empty: DROP SCHEMA outbox;';
    END IF;
END
$$;
CREATE SCHEMA outbox;

-- What the extension has in Rust.
-- UUID version 7 (RFC 9562), without the extension: 48 bits of milliseconds, then 12 bits that count 1/4096 of one, then
-- random bits. Ids sort by the microsecond they were made in.
CREATE OR REPLACE FUNCTION outbox.uuid_v7() RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ticks bigint := floor(extract(epoch FROM clock_timestamp()) * 1000 * 4096);
BEGIN
    RETURN encode(
        substring(int8send(ticks >> 12) FROM 3)
        || substring(int8send(x'7000'::bigint | (ticks & x'0fff'::bigint)) FROM 7)
        || substring(uuid_send(gen_random_uuid()) FROM 9), -- its first two bits are the variant, as in version 4
        'hex')::uuid;
END
$$;

-- What the database must be like.
--
-- Any encoding will do: PostgreSQL sends the relay all text in UTF-8, and what is none in UTF-8 is refused when it is emitted.
--
-- Without wal_level = logical nothing is ever sent: events wait in the table, which is worth a warning, not a refusal,
-- since the setting may come with the next restart.
DO $$
BEGIN
    -- From PostgreSQL 19 on, replica is enough: the first logical slot raises it.
    IF current_setting('wal_level') <> 'logical'
       AND NOT (current_setting('wal_level') = 'replica' AND current_setting('server_version_num')::int >= 190000) THEN
        RAISE WARNING 'wal_level is %, the relay needs logical: events will wait in outbox.events unsent',
                current_setting('wal_level')
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE
                      WHEN to_regrole('rds_superuser') IS NOT NULL OR current_setting('rds.logical_replication', true) <> ''
                          THEN 'Set rds.logical_replication = 1 in the parameter group of the instance (Aurora: of the cluster), then reboot it.'
                      WHEN to_regrole('cloudsqlsuperuser') IS NOT NULL OR current_setting('cloudsql.logical_decoding', true) <> ''
                          THEN 'Set the flag cloudsql.logical_decoding = on, which restarts the instance.'
                      WHEN to_regrole('azure_pg_admin') IS NOT NULL OR current_setting('azure.extensions', true) <> ''
                          THEN 'Set the server parameter wal_level to logical, then restart the server.'
                      WHEN to_regrole('neon_superuser') IS NOT NULL
                          THEN 'Enable logical replication in the project''s settings.'
                      ELSE 'ALTER SYSTEM SET wal_level = logical; then restart the server.'
                  END;
    END IF;
END
$$;
-- The states of an event. Legal moves are in status_trigger.sql.
CREATE TYPE outbox.status AS ENUM (
    'PENDING', -- owed to the broker
    'SENT',    -- confirmed by the broker: routed, and persistent where its queue is
    'FAILED'   -- given up: last_error says why
);
COMMENT ON TYPE outbox.status IS 'PENDING: owed to the broker. SENT: confirmed by it. FAILED: given up, see last_error.';
-- The outbox: one row is one message.
--
-- The upper columns are the envelope, which the application writes once. The lower ones are the delivery, which the relay
-- writes, or an operator who replays. Fixed-width columns that are never null come first, where PostgreSQL finds
-- them without walking the row.
--
-- The limits of a row's form are checked by its INSERT trigger (admit_trigger.sql), not by CHECK constraints: eleven
-- CHECKs made a single-row INSERT three times as slow (8.6 to 26.8 microseconds), because PostgreSQL parses a table's
-- CHECKs anew for every statement, and they would be checked again at each status update.
CREATE TABLE outbox.events (
    id                uuid          NOT NULL DEFAULT outbox.uuid_v7() PRIMARY KEY,
    seq               bigint        NOT NULL,
    created_at        timestamptz   NOT NULL DEFAULT now(),
    status            outbox.status NOT NULL DEFAULT 'PENDING',
    attempts          integer       NOT NULL DEFAULT 0,
    replays           integer       NOT NULL DEFAULT 0,
    holds_key         boolean       NOT NULL DEFAULT false,

    topic             text          NOT NULL,
    exchange          text,
    event_type        text,
    aggregate_type    text,
    aggregate_id      text,
    payload           jsonb,
    payload_bytes     bytea,
    content_type      text,
    headers           jsonb,
    correlation_id    text,
    available_at      timestamptz,

    last_error        text,
    first_attempted_at timestamptz,
    last_attempted_at timestamptz,
    processed_at      timestamptz
) WITH (
    -- Every row is updated once or twice soon after its INSERT, so dead versions and dead index entries gather at the head
    -- of the queue. The default, a fifth of the table, would let millions gather over a long history.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000,
    -- Ten times the default. At most 40 MB a second are cleaned with that, which is less than a busy outbox dirties: at 50,000 events a
    -- second the room of deleted ones was free too late, and the table grew as if all were kept (make bench ONLY=retention).
    autovacuum_vacuum_cost_limit = 2000
);

-- A sequence that is made with its table is made before it, and DROP EXTENSION locks in the order of making: the sequence, then the table.
-- An INSERT locks the table first, so the two could deadlock.
ALTER TABLE outbox.events ALTER seq ADD GENERATED ALWAYS AS IDENTITY;

COMMENT ON TABLE outbox.events IS 'Messages for RabbitMQ, each committed with the business rows it speaks of.';
COMMENT ON COLUMN outbox.events.id IS 'UUID version 7; the AMQP message_id, the same on every delivery.';
COMMENT ON COLUMN outbox.events.seq IS 'Order in which events were made (not: committed); header x-outbox-seq.';
COMMENT ON COLUMN outbox.events.created_at IS 'Start of the transaction that emitted; the AMQP timestamp.';
COMMENT ON COLUMN outbox.events.status IS 'PENDING, SENT or FAILED.';
COMMENT ON COLUMN outbox.events.attempts IS 'Publishes that the broker answered, except while it refused everything; a replay sets it back to 0.';
COMMENT ON COLUMN outbox.events.replays IS 'How often the event was replayed; header x-outbox-replay, from the first replay on.';
COMMENT ON COLUMN outbox.events.holds_key IS 'Whether later events with the same key wait: this one is being retried, or has FAILED and the relay is told to hold.';
COMMENT ON COLUMN outbox.events.topic IS 'Routing key.';
COMMENT ON COLUMN outbox.events.exchange IS 'Exchange; null: the relay''s default.';
COMMENT ON COLUMN outbox.events.event_type IS 'AMQP type.';
COMMENT ON COLUMN outbox.events.aggregate_type IS 'First half of the ordering key, and a header.';
COMMENT ON COLUMN outbox.events.aggregate_id IS 'Second half of the ordering key: its events are delivered in commit order.';
COMMENT ON COLUMN outbox.events.payload IS 'Body as JSON; or payload_bytes is set.';
COMMENT ON COLUMN outbox.events.payload_bytes IS 'Body as bytes, with content_type; or payload is set.';
COMMENT ON COLUMN outbox.events.content_type IS 'AMQP content_type; null: application/json.';
COMMENT ON COLUMN outbox.events.headers IS 'AMQP headers, a JSON object.';
COMMENT ON COLUMN outbox.events.correlation_id IS 'AMQP correlation_id; left out: the setting outbox.correlation_id.';
COMMENT ON COLUMN outbox.events.available_at IS 'The event is not sent before this time; null: at once. After a refused attempt the relay sets it to the time of the next one.';
COMMENT ON COLUMN outbox.events.last_error IS 'What the broker said to the last attempt, if that was refused; a replay keeps it.';
COMMENT ON COLUMN outbox.events.first_attempted_at IS 'Time of the first refused attempt that counted, from which retry_for is measured; a replay sets it back to null.';
COMMENT ON COLUMN outbox.events.last_attempted_at IS 'Time of the last attempt.';
COMMENT ON COLUMN outbox.events.processed_at IS 'Time the event became SENT or FAILED.';
-- Partial indexes of what is owed and what failed: they stay small however long the history is.

-- For the relay's scan after a start or an outage (pending.sql).
CREATE INDEX events_pending ON outbox.events (seq) WHERE status = 'PENDING' AND available_at IS NULL;

-- For events with a time of their own, retries among them (due.sql).
CREATE INDEX events_due ON outbox.events (available_at, seq) WHERE status = 'PENDING' AND available_at IS NOT NULL;

-- For the keys that are held back, and the events that hold them (pending.sql, holding.sql).
CREATE INDEX events_holding ON outbox.events (aggregate_id, aggregate_type) WHERE holds_key;

-- For an operator's look at failures, and for replays of them.
CREATE INDEX events_failed ON outbox.events (seq) WHERE status = 'FAILED';

-- Returns the bytes that a text has as the relay is sent it, without the extension, which does the same in Rust
-- (outbox_ext/src/postgres/encoding.rs): PostgreSQL sends the texts of a database in UTF-8 or SQL_ASCII as they are, and converts
-- those of any other encoding. The function is inlined into the call.
CREATE OR REPLACE FUNCTION outbox.utf8_bytes(value text) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN octet_length(value)
    ELSE octet_length(convert_to(value, 'UTF8')) END;
COMMENT ON FUNCTION outbox.utf8_bytes(text) IS 'Size of a text in UTF-8.';
-- outbox.event_bytes() without the extension, which reads the size without the value (outbox_ext/src/event_bytes.rs): bytes of
-- an event's body and headers, uncompressed.
--
-- octet_length(bytea) reads the length without the value. jsonb has no such function: pg_column_size() tells the stored
-- size, so the value is unpacked first (#> '{}' returns it as it is, after a header of 4 bytes).
CREATE OR REPLACE FUNCTION outbox.event_bytes(payload jsonb, payload_bytes bytea, headers jsonb) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(octet_length(payload_bytes), pg_column_size(payload #> '{}') - 4, 0)
    + coalesce(pg_column_size(headers #> '{}') - 4, 0);
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
-- Refuses a payload over the setting outbox.max_payload_bytes: 1 MB when it is not set, else a number of bytes or a size
-- with a unit (B, kB, MB). Without the extension PostgreSQL takes any text for it, so a text that is no size is refused here.
CREATE OR REPLACE FUNCTION outbox.check_payload_size(bytes bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := coalesce(nullif(current_setting('outbox.max_payload_bytes', true), ''), '1MB');
    size text[] := regexp_match(setting, '^[[:space:]]*([0-9]{1,9})[[:space:]]*(B|kB|MB)?[[:space:]]*$');
    max_bytes bigint := size[1]::bigint * CASE size[2] WHEN 'kB' THEN 1024 WHEN 'MB' THEN 1024 * 1024 ELSE 1 END;
BEGIN
    IF max_bytes IS NULL OR max_bytes NOT BETWEEN 1 AND 128 * 1024 * 1024 THEN
        RAISE EXCEPTION 'invalid value for parameter "outbox.max_payload_bytes": "%"', setting
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It is a size from 1B to 128MB.';
    END IF;
    IF bytes > max_bytes THEN
        RAISE EXCEPTION 'payload is % bytes, the limit is %',
                CASE WHEN bytes > 134217728 THEN 'more than 134217728' ELSE bytes::text END, max_bytes
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'The limit is the setting outbox.max_payload_bytes.',
                  HINT = 'Store the data and emit a reference to it, or raise the setting.';
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.check_payload_size(bigint) IS 'Refuses a payload over outbox.max_payload_bytes.';
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
-- outbox.emit() without the extension, which has it in Rust (outbox_ext/src/emit.rs). The INSERT's trigger checks the
-- event.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        jsonb,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    event_id uuid;
BEGIN
    INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange,
                               available_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    RETURNING id INTO event_id;
    IF event_id IS NULL THEN
        RAISE EXCEPTION 'the event was not inserted'
            USING ERRCODE = 'triggered_action_exception',
                  DETAIL = 'A trigger on outbox.events returned null.',
                  HINT = 'Drop that trigger: an event that is not to be sent is not to be emitted.';
    END IF;
    RETURN event_id;
END
$$;

-- A body of bytes. The arguments have the same order, so that PostgreSQL can tell the functions apart by the payload
-- alone when literals have no type yet; content_type comes after them.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        bytea,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL,
    content_type   text        DEFAULT 'application/octet-stream'
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    event_id uuid;
BEGIN
    INSERT INTO outbox.events (topic, payload_bytes, event_type, aggregate_type, aggregate_id, headers, correlation_id,
                               exchange, available_at, content_type)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    RETURNING id INTO event_id;
    IF event_id IS NULL THEN
        RAISE EXCEPTION 'the event was not inserted'
            USING ERRCODE = 'triggered_action_exception',
                  DETAIL = 'A trigger on outbox.events returned null.',
                  HINT = 'Drop that trigger: an event that is not to be sent is not to be emitted.';
    END IF;
    RETURN event_id;
END
$$;

-- Every new event passes outbox.admit(), whether it came by outbox.emit() or by INSERT: it checks the form and fills in
-- the context (correlation_id, traceparent).
--
-- The trigger has no WHEN clause: PostgreSQL parses one anew for every statement, which costs a single-row INSERT more
-- (10 microseconds) than calling the function (1).
CREATE OR REPLACE TRIGGER admit BEFORE INSERT ON outbox.events
    FOR EACH ROW EXECUTE FUNCTION outbox.admit();

-- ALWAYS: rows that logical replication brings pass the trigger, too. A row that nobody can read would stop all who read the
-- table.
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER admit;
-- The envelope of an event never changes: consumers know its id, and its body may be out already.
--
-- An UPDATE that writes the same values, as from an ORM that saves whole objects, is no change. An UPDATE that sets none of
-- these columns, such as the relay's, pays nothing: UPDATE OF decides by name. The status trigger guards available_at, because
-- the relay sets it when it will try again.
CREATE OR REPLACE FUNCTION outbox.refuse_envelope_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    SELECT was.key INTO changed
    FROM jsonb_each(to_jsonb(old)) AS was
    JOIN jsonb_each(to_jsonb(new)) AS becomes USING (key)
    WHERE was.value IS DISTINCT FROM becomes.value
      AND was.key NOT IN ('status', 'attempts', 'replays', 'holds_key', 'last_error', 'first_attempted_at', 'last_attempted_at', 'processed_at')
    ORDER BY was.key
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
         old.payload, old.payload_bytes, old.content_type, old.headers, old.correlation_id)
        IS DISTINCT FROM
        (new.id, new.seq, new.created_at, new.topic, new.exchange, new.event_type, new.aggregate_type, new.aggregate_id,
         new.payload, new.payload_bytes, new.content_type, new.headers, new.correlation_id)
    )
    EXECUTE FUNCTION outbox.refuse_envelope_change();

-- ALWAYS, as admit is: an UPDATE must not bring in what an INSERT may not.
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER envelope_is_final;
-- The bell: a message in the write-ahead log, in the transaction, that makes the relay look for PENDING rows again. The
-- relay reads inserts only, so it would not notice a row that an UPDATE made PENDING.
--
-- One message per transaction is enough, however many rows it replays. A rollback to a savepoint takes back both the message
-- and the note that it was written.
CREATE OR REPLACE FUNCTION outbox.ring() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('outbox.rung_in', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        PERFORM pg_logical_emit_message(true, 'outbox', 'replay');
        PERFORM set_config('outbox.rung_in', pg_current_xact_id()::text, true);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.ring() IS 'Makes the relay look for PENDING events once this transaction has committed.';
-- The legal moves of an event's status:
--
--     PENDING → SENT, FAILED     a verdict
--     PENDING → PENDING          an attempt that will be repeated (attempts + 1), or that does not count and is repeated later
--     FAILED, SENT → PENDING     a replay
--     FAILED, no longer holding its key (holds_key to false)
--
-- Everything else is refused. The trigger stamps counters and times itself and trusts none that it is given, so that an
-- operator's plain UPDATE … SET status = 'PENDING' is a whole replay.
CREATE OR REPLACE FUNCTION outbox.move_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    -- A row that logical replication brings was moved and stamped where it comes from, and is kept as it was. None of its
    -- moves is refused: when relays have worked on both sides, a verdict may reach an event that already has one, and a refusal
    -- would stop replication for good. The trigger refuses only what would stop those who read or settle.
    IF current_setting('session_replication_role') = 'replica' THEN
        changed := CASE
            WHEN new.attempts < 0 OR new.attempts = 2147483647 THEN 'attempts' -- settle() adds 1
            WHEN new.available_at = 'infinity' THEN 'available_at'
            WHEN new.holds_key AND new.status = 'SENT' THEN 'holds_key'
        END;
        IF changed IS NOT NULL THEN
            RAISE EXCEPTION '% of event % cannot be %', changed, old.id, to_jsonb(new) ->> changed
                USING ERRCODE = 'check_violation',
                      DETAIL = 'Nobody could settle this event, or those behind it.',
                      HINT = 'Look for who wrote it: a session with session_replication_role = replica, or a publisher.',
                      SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
        END IF;
        IF old.holds_key AND NOT new.holds_key OR old.status <> 'PENDING' AND new.status = 'PENDING' THEN
            PERFORM outbox.ring();
        END IF;
        RETURN new;
    END IF;

    IF old.status = 'PENDING' AND new.status = 'PENDING' AND new.attempts = old.attempts + 1
        OR old.status = 'PENDING' AND new.status <> 'PENDING' AND new.available_at IS NOT DISTINCT FROM old.available_at
    THEN
        new.attempts := old.attempts + 1;
        new.replays := old.replays;
        new.first_attempted_at :=
            CASE WHEN new.status = 'PENDING' THEN coalesce(old.first_attempted_at, now()) ELSE old.first_attempted_at END;
        new.last_attempted_at := now();
        new.processed_at := CASE WHEN new.status <> 'PENDING' THEN now() END;
        new.last_error := CASE WHEN new.status <> 'SENT' THEN new.last_error END;
        new.holds_key := new.status = 'PENDING' AND new.holds_key;
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.ring(); -- the events behind it may go on
        END IF;
        RETURN new;
    END IF;

    -- An attempt that does not count is stamped with this transaction's time, to be repeated later, and changes nothing else.
    -- Whoever may write these columns may record one; settle() may, by its owner's rights.
    IF old.status = 'PENDING' AND new.status = 'PENDING' AND new.attempts = old.attempts
        AND new.last_attempted_at = now() AND new.available_at >= now() AND new.processed_at IS NULL
        AND (new.last_error, new.first_attempted_at, new.replays) IS NOT DISTINCT FROM (old.last_error, old.first_attempted_at, old.replays)
    THEN
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.ring();
        END IF;
        RETURN new;
    END IF;

    IF old.status <> 'PENDING' AND new.status = 'PENDING' AND new.available_at IS NOT DISTINCT FROM old.available_at THEN
        new.attempts := 0;
        new.replays := least(old.replays, 2147483646) + 1;
        new.first_attempted_at := NULL;
        new.last_error := old.last_error;
        new.last_attempted_at := old.last_attempted_at;
        new.processed_at := NULL;
        new.available_at := NULL;
        new.holds_key := false;
        PERFORM outbox.ring();
        RETURN new;
    END IF;

    changed := CASE
        WHEN new.available_at IS DISTINCT FROM old.available_at THEN 'available_at'
        WHEN new.status IS DISTINCT FROM old.status THEN 'status'
        WHEN new.attempts IS DISTINCT FROM old.attempts THEN 'attempts'
        WHEN new.replays IS DISTINCT FROM old.replays THEN 'replays'
        WHEN new.last_error IS DISTINCT FROM old.last_error THEN 'last_error'
        WHEN new.first_attempted_at IS DISTINCT FROM old.first_attempted_at THEN 'first_attempted_at'
        WHEN new.last_attempted_at IS DISTINCT FROM old.last_attempted_at THEN 'last_attempted_at'
        WHEN new.processed_at IS DISTINCT FROM old.processed_at THEN 'processed_at'
        WHEN new.holds_key > old.holds_key OR new.holds_key < old.holds_key AND old.status <> 'FAILED' THEN 'holds_key'
    END;
    IF changed IS NULL THEN
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.ring();
        END IF;
        RETURN new;
    END IF;

    RAISE EXCEPTION USING
        ERRCODE = 'check_violation',
        MESSAGE = CASE changed
            WHEN 'status' THEN format('status of event %s cannot go from %s to %s', old.id, old.status, new.status)
            ELSE format('%s of event %s cannot be changed', changed, old.id)
        END,
        DETAIL = 'Legal moves are PENDING to SENT or FAILED, and FAILED or SENT back to PENDING.',
        HINT = CASE changed
            WHEN 'status' THEN 'Set status to PENDING, or call outbox.replay(id), to have the event delivered again.'
            WHEN 'holds_key' THEN 'Call outbox.release(id) for a FAILED event that holds its key.'
            WHEN 'available_at' THEN 'Emit a new event.'
            ELSE 'Counters, times and errors are written together with status.'
        END,
        SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
END
$$;

-- A write-back by outbox.settle() is stamped in full already, with this transaction's time. The WHEN clause recognises it, so
-- that it does not pay for the function call. IS NOT TRUE sends an unknown result to the function, too.
CREATE OR REPLACE TRIGGER status_moves
    BEFORE UPDATE OF status, attempts, replays, holds_key, available_at, last_error, first_attempted_at, last_attempted_at,
        processed_at ON outbox.events
    FOR EACH ROW
    WHEN ((
        old.status = 'PENDING'
        AND new.attempts = old.attempts + 1
        AND new.replays = old.replays
        AND new.last_attempted_at = now()
        AND CASE
                WHEN new.status = 'PENDING' AND old.first_attempted_at IS NULL THEN new.first_attempted_at = now()
                ELSE NOT new.first_attempted_at IS DISTINCT FROM old.first_attempted_at
            END
        AND CASE new.status
                WHEN 'PENDING' THEN new.processed_at IS NULL
                WHEN 'FAILED' THEN new.processed_at = now()
                ELSE new.processed_at = now() AND new.last_error IS NULL AND NOT new.holds_key
            END
    ) IS NOT TRUE)
    EXECUTE FUNCTION outbox.move_status();
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER status_moves;

-- A deleted event no longer holds its key, either. PostgreSQL evaluates WHEN before it queues anything, so deleting old history
-- pays next to nothing.
CREATE OR REPLACE FUNCTION outbox.end_hold() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.ring();
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER deletion_ends_hold
    AFTER DELETE ON outbox.events
    FOR EACH ROW
    WHEN (old.holds_key)
    EXECUTE FUNCTION outbox.end_hold();
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER deletion_ends_hold;
-- Applications can follow an event's status: LISTEN outbox_status; the payload of each notification is '<id> <status>'.
--
-- Notifications are off by default, because NOTIFY takes a lock of the whole cluster at commit. The session that writes the
-- status decides by its setting: ALTER ROLE relay SET outbox.notify_status = on. While the setting is off, the trigger costs
-- no more than its WHEN clause: an AFTER trigger is queued only when the clause is true.
CREATE OR REPLACE FUNCTION outbox.notify_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('outbox_status', new.id || ' ' || new.status);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER notify_status
    AFTER UPDATE OF status ON outbox.events
    FOR EACH ROW
    WHEN (lower(current_setting('outbox.notify_status', true)) IN ('on', 'true', 'yes', '1')
          AND new.status <> old.status)
    EXECUTE FUNCTION outbox.notify_status();
-- Pages of the relay's scans (pending.sql, due.sql): what stands in for a row that cannot be read.
--
-- A row that passed the checks can always be read. One that came in without them (triggers disabled), or whose pages on disk
-- are damaged, may be too large to print, or unreadable. Such a row must not stop the others: it comes without its contents,
-- alone in its page, with the reason in last_error, and the relay gives it up.

-- The largest row that is read, in bytes: a little more than the largest event, whose body has 128 MB and
-- everything else together less than a tenth of a MB. The relay lets no larger row in.
CREATE OR REPLACE FUNCTION outbox.largest_row() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 129 * 1024 * 1024;
COMMENT ON FUNCTION outbox.largest_row() IS 'Bytes of the largest row that the relay reads.';

-- Says why the row at this place cannot be read as a whole; null if it can. It prints the row to find out, so it is called only
-- after a page has failed.
CREATE OR REPLACE FUNCTION outbox.unreadable(home oid, place tid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bigint;
BEGIN
    SELECT outbox.event_bytes(e.payload, e.payload_bytes, e.headers) INTO bytes
    FROM outbox.events AS e
    WHERE e.ctid = place AND e.tableoid = home;
    IF bytes > outbox.largest_row() THEN
        RETURN format('%s bytes', bytes);
    END IF;
    -- hashtext() and sha256() look at every byte; a length may be known without that. In another encoding a text may be none in
    -- UTF-8, in which it is sent.
    SELECT coalesce(octet_length(e.payload_bytes) + 0 * octet_length(sha256(e.payload_bytes)), 0) + (
        SELECT sum(0 * hashtext(value)::bigint + CASE getdatabaseencoding() WHEN 'UTF8' THEN octet_length(value)
            ELSE octet_length(convert_to(value, 'UTF8')) END)
        FROM unnest(ARRAY[e.payload::text, e.headers::text, e.topic, e.exchange, e.event_type, e.aggregate_type, e.aggregate_id,
                          e.content_type, e.correlation_id, e.last_error]) AS value
    )
    INTO bytes
    FROM outbox.events AS e
    WHERE e.ctid = place AND e.tableoid = home;
    RETURN CASE WHEN bytes > outbox.largest_row() THEN format('%s bytes when printed', bytes) END;
EXCEPTION WHEN OTHERS THEN
    RETURN sqlerrm;
END
$$;
COMMENT ON FUNCTION outbox.unreadable(oid, tid) IS 'Internal to pending() and due(): why a row cannot be read; null if it can.';

-- Returns a text, or null if it cannot be sent: in a database with another encoding it may have no form in UTF-8.
CREATE OR REPLACE FUNCTION outbox.sendable(value text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF getdatabaseencoding() <> 'UTF8' THEN
        PERFORM convert_to(value, 'UTF8');
    END IF;
    RETURN value;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION outbox.sendable(text) IS 'Internal to pending() and due(): a text, or null if it cannot be sent.';

-- Returns those columns of the row at this place that have a fixed size, and its key if that fits.
CREATE OR REPLACE FUNCTION outbox.row_without_contents(home oid, place tid, reason text) RETURNS outbox.events
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_populate_record(NULL::outbox.events, jsonb_build_object(
        'id', e.id, 'seq', e.seq, 'created_at', e.created_at, 'status', e.status, 'attempts', e.attempts, 'replays', e.replays,
        'holds_key', e.holds_key, 'available_at', e.available_at, 'first_attempted_at', e.first_attempted_at,
        'aggregate_type', CASE WHEN pg_column_size(e.aggregate_type) < 1024 THEN outbox.sendable(e.aggregate_type) END,
        'aggregate_id', CASE WHEN pg_column_size(e.aggregate_id) < 1024 THEN outbox.sendable(e.aggregate_id) END,
        'last_error', 'the row cannot be read: ' || reason
    ))
    FROM outbox.events AS e WHERE e.ctid = place AND e.tableoid = home
$$;
COMMENT ON FUNCTION outbox.row_without_contents(oid, tid, text) IS
    'Internal to pending() and due(): what stands in for a row that cannot be read.';
-- Makes sure that the WAL is on disk up to a position, and with it every commit that a reader of the table had seen by then.
--
-- A commit under synchronous_commit = off can be seen before it is on disk, and a crash would lose it: its events must not be
-- published yet. Usually the WAL has long been on disk. Otherwise the commit of this function's transaction takes it there: that
-- commit waits for the disk and for no standby. The message only makes it a commit that writes something.
CREATE OR REPLACE FUNCTION outbox.flush(up_to pg_lsn) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_current_wal_flush_lsn() < up_to THEN
        PERFORM set_config('synchronous_commit', 'local', true);
        PERFORM pg_logical_emit_message(true, 'outbox.flush', '');
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.flush(pg_lsn) IS 'Relay: makes its transaction''s commit write the WAL to disk up to this position.';
-- The relay's scan: returns the events that are owed now, in the order in which they were made, a page at a time.
--
-- A page ends after max_rows rows or max_bytes bytes, whichever comes first, but has at least one row if there is any.
-- Bytes are counted uncompressed, as they will be in the relay's memory. Events of the keys (skip_types[i], skip_ids[i])
-- are left out: those keys already have as many events in the relay's memory as they may have. Events behind one that holds their
-- key are left out, too, unless heed_holds is false.
--
-- Later pages are given older_than, the oldest transaction that was running when the first page was read, and end before the
-- first event of a later transaction: it may build on an event that could not be seen then, and whose seq the pages have passed.
--
-- A row that cannot be read comes alone and without its contents (page.sql). With careful, a page has one row, which is tried first;
-- the relay asks for that when a page has failed. Even its bytes are counted there only where an error is caught: without the extension,
-- a value has to be read for that.
--
-- The settings leave the planner no way but the index, whatever the statistics say. Otherwise it would sort the whole history
-- for each page right after a bulk load, or when the table was empty at its last ANALYZE.
CREATE OR REPLACE FUNCTION outbox.pending(
    after_seq bigint, max_rows integer, max_bytes bigint, skip_types text[] DEFAULT '{}', skip_ids text[] DEFAULT '{}',
    older_than bigint DEFAULT NULL, heed_holds boolean DEFAULT true,
    careful boolean DEFAULT false
) RETURNS SETOF outbox.events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    oldest xid := older_than::text::xid;
    found record;
    homes oid[] := '{}';
    places tid[] := '{}';
    bytes bigint := 0;
    reason text;
BEGIN
    FOR found IN
        SELECT e.tableoid AS home, e.ctid AS place, oldest IS NULL OR age(e.xmin) > age(oldest) AS is_old,
            CASE WHEN NOT careful THEN outbox.event_bytes(e.payload, e.payload_bytes, e.headers) END AS bytes
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL AND e.seq > pending.after_seq
          -- A subquery that does not depend on the row is hashed once. No key is '', which stands for null here.
          AND (coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, '')) NOT IN (
              SELECT coalesce(skipped.type, ''), skipped.id FROM unnest(skip_types, skip_ids) AS skipped (type, id)
          )
          AND (NOT heed_holds OR NOT EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.seq
        LIMIT pending.max_rows
    LOOP
        EXIT WHEN NOT found.is_old;
        reason := CASE WHEN careful THEN outbox.unreadable(found.home, found.place)
            WHEN found.bytes > outbox.largest_row() THEN format('%s bytes', found.bytes) END;
        IF reason IS NOT NULL THEN
            IF cardinality(places) = 0 THEN
                RETURN NEXT outbox.row_without_contents(found.home, found.place, reason);
            END IF;
            EXIT;
        END IF;
        homes := homes || found.home;
        places := places || found.place;
        bytes := bytes + found.bytes;
        EXIT WHEN careful OR bytes >= pending.max_bytes;
    END LOOP;

    -- Straight from the table: a row that goes through a variable is unpacked on the way. The statement names the table, not a
    -- function that returns its rows, so that PostgreSQL notices a column that is added.
    RETURN QUERY
        SELECT e.*
        FROM unnest(homes, places) WITH ORDINALITY AS page (home, place, number)
        JOIN outbox.events AS e ON e.ctid = page.place AND e.tableoid = page.home
        ORDER BY page.number;
END
$$;
COMMENT ON FUNCTION outbox.pending(bigint, integer, bigint, text[], text[], bigint, boolean, boolean) IS
    'Relay: events owed now, after seq, cut by rows and bytes.';
-- Whether a body is large, judged by its stored size, with a lower limit for a compressed value, which may print a hundred times as
-- many bytes. It becomes a part of the query that calls it, and does not unpack the value.
CREATE OR REPLACE FUNCTION outbox.is_large(body anyelement) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT pg_catalog.pg_column_size(body) > 16384
        OR pg_catalog.pg_column_size(body) > 2048 AND pg_catalog.pg_column_compression(body) IS NOT NULL
$$;
COMMENT ON FUNCTION outbox.is_large(anyelement) IS 'Internal to owed(): whether a body is too large to be read without counting bytes.';

-- A chunk of what pending() returns, for less: rows go out as they are found, without a second look-up of each.
--
-- Nothing but max_rows bounds a chunk, so a row with a large body comes without its contents, and is_large. The relay ends the chunk
-- there, reads on from that row by pending(), which counts bytes, and then comes back. A chunk that cannot be read as a whole is
-- read by pending(), too. is_old is false from the first event on that older_than leaves out: the scan ends before it.
--
-- Whether any key is held is asked once a chunk, and only then row by row. One plan serves all calls, whatever the statistics are.
CREATE OR REPLACE FUNCTION outbox.owed(
    after_seq bigint, max_rows integer, skip_types text[] DEFAULT '{}', skip_ids text[] DEFAULT '{}',
    older_than bigint DEFAULT NULL, heed_holds boolean DEFAULT true
) RETURNS TABLE (
    id uuid, seq bigint, created_at timestamptz, status outbox.status, attempts integer, replays integer, holds_key boolean,
    topic text, exchange text, event_type text, aggregate_type text, aggregate_id text, payload jsonb, payload_bytes bytea, content_type text, headers jsonb,
    correlation_id text, available_at timestamptz, last_error text, first_attempted_at timestamptz, is_large boolean, is_old boolean
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    oldest CONSTANT xid := older_than::text::xid;
BEGIN
    RETURN QUERY
        SELECT e.id, e.seq, e.created_at, e.status, e.attempts, e.replays, e.holds_key, e.topic, e.exchange,
            e.event_type, e.aggregate_type, e.aggregate_id,
            CASE WHEN NOT outbox.is_large(e.payload) THEN e.payload END,
            CASE WHEN NOT outbox.is_large(e.payload_bytes) THEN e.payload_bytes END,
            e.content_type, e.headers, e.correlation_id, e.available_at, e.last_error, e.first_attempted_at,
            coalesce(outbox.is_large(e.payload) OR outbox.is_large(e.payload_bytes), false),
            oldest IS NULL OR age(e.xmin) > age(oldest)
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL AND e.seq > owed.after_seq
          -- A subquery that does not depend on the row is hashed once. No key is '', which stands for null here.
          AND (coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, '')) NOT IN (
              SELECT coalesce(skipped.type, ''), skipped.id FROM unnest(skip_types, skip_ids) AS skipped (type, id)
          )
          AND NOT (heed_holds AND (SELECT EXISTS (SELECT FROM outbox.events AS h WHERE h.holds_key)) AND EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.seq
        LIMIT owed.max_rows;
END
$$;
COMMENT ON FUNCTION outbox.owed(bigint, integer, text[], text[], bigint, boolean) IS
    'Relay: events owed now, after seq, as far as they are small.';
-- Returns events with a time of their own once that time has come: by time, then in the order in which they were made, a page
-- at a time. The next page starts after the available_at and seq of the last row; null stands for the beginning. Pages are cut
-- as in pending.sql, events behind one that holds their key are left out as there, and careful and the settings mean the same.
--
-- While the relay has not read all that is pending, it gives older_than: events of later transactions are left out if they have a
-- key and do not hold it, for others of their key may come before them. 0 leaves out all of those.
CREATE OR REPLACE FUNCTION outbox.due(
    max_rows integer, max_bytes bigint, after_at timestamptz, after_seq bigint, older_than bigint DEFAULT NULL,
    heed_holds boolean DEFAULT true, careful boolean DEFAULT false
)
RETURNS SETOF outbox.events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    until timestamptz := clock_timestamp();
    oldest xid := older_than::text::xid; -- the age of 0 is that of no transaction
    found record;
    homes oid[] := '{}';
    places tid[] := '{}';
    bytes bigint := 0;
    reason text;
BEGIN
    FOR found IN
        SELECT e.tableoid AS home, e.ctid AS place,
            CASE WHEN NOT careful THEN outbox.event_bytes(e.payload, e.payload_bytes, e.headers) END AS bytes
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at <= until
          AND (e.available_at, e.seq) > (coalesce(due.after_at, '-infinity'), coalesce(due.after_seq, 0))
          AND (oldest IS NULL OR e.holds_key OR e.aggregate_id IS NULL OR age(e.xmin) > age(oldest))
          AND (e.holds_key OR NOT heed_holds OR NOT EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.available_at, e.seq
        LIMIT due.max_rows
    LOOP
        reason := CASE WHEN careful THEN outbox.unreadable(found.home, found.place)
            WHEN found.bytes > outbox.largest_row() THEN format('%s bytes', found.bytes) END;
        IF reason IS NOT NULL THEN
            IF cardinality(places) = 0 THEN
                RETURN NEXT outbox.row_without_contents(found.home, found.place, reason);
            END IF;
            EXIT;
        END IF;
        homes := homes || found.home;
        places := places || found.place;
        bytes := bytes + found.bytes;
        EXIT WHEN careful OR bytes >= due.max_bytes;
    END LOOP;

    -- Straight from the table: a row that goes through a variable is unpacked on the way. The statement names the table, not a
    -- function that returns its rows, so that PostgreSQL notices a column that is added.
    RETURN QUERY
        SELECT e.*
        FROM unnest(homes, places) WITH ORDINALITY AS page (home, place, number)
        JOIN outbox.events AS e ON e.ctid = page.place AND e.tableoid = page.home
        ORDER BY page.number;
END
$$;
COMMENT ON FUNCTION outbox.due(integer, bigint, timestamptz, bigint, bigint, boolean, boolean) IS 'Relay: events whose available_at has come.';

-- Returns the milliseconds, rounded up, until the next event comes due; null when none waits. Only events in the future
-- count: to miss none, call this function first and outbox.due() after it.
CREATE OR REPLACE FUNCTION outbox.next_due() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    since timestamptz := clock_timestamp();
BEGIN
    RETURN (
        SELECT ceil(extract(epoch FROM e.available_at - since) * 1000)
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at > since AND e.available_at < 'infinity'
        ORDER BY e.available_at, e.seq
        LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION outbox.next_due() IS 'Relay: milliseconds until the next available_at in the future.';
-- Returns the keys that are held back, and by which events: one row for each event that holds its key.
CREATE OR REPLACE FUNCTION outbox.holding(max_rows integer)
RETURNS TABLE (id uuid, aggregate_type text, aggregate_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY
        SELECT e.id, e.aggregate_type, e.aggregate_id
        FROM outbox.events AS e
        WHERE e.holds_key AND e.aggregate_id IS NOT NULL
        LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION outbox.holding(integer) IS 'Relay: events that hold their key back.';
-- outbox.settle_sent() without the extension, which writes verdicts without a statement (outbox_ext/src/settle_sent.rs): it
-- leaves all of them to outbox.settle().
CREATE OR REPLACE FUNCTION outbox.settle_sent(ids uuid[]) RETURNS uuid[]
LANGUAGE sql VOLATILE STRICT
AS 'SELECT ids';
-- The relay's write-back: one verdict per event, in one statement for the whole batch.
--
-- SENT and FAILED finish an event; PENDING records an attempt that will be repeated in retry_ms milliseconds. Without an error
-- the attempt does not count: the broker refused everything, which is no event's fault. Where holds is true, later events with
-- the event's key wait for it. Only rows that are still PENDING change.
--
-- Returns the events that it has not written, each with the status that it has:
-- null: it cannot be seen yet. A walsender may stream a commit a moment before other sessions see it.
-- PENDING: it could not be written just now. With skip_locked, rows that someone else has locked are passed over, so that
-- they delay no other verdict.
-- SENT, FAILED: it was to be tried again, or to hold its key, but someone else has finished it. (An event that was to be
-- finished, and is, is not returned.)
--
-- Each row is found by its primary key. The settings rule out the plans that read the whole table, which a table without
-- fresh statistics invites; a custom plan, made for this very batch, costs a tenth of a millisecond and cannot outlive
-- the table size it was made for. Rows are taken in one order, so that two settles cannot deadlock.
CREATE OR REPLACE FUNCTION outbox.settle(
    ids uuid[], statuses outbox.status[], errors text[],
    retry_ms integer[] DEFAULT '{}', holds boolean[] DEFAULT '{}', skip_locked boolean DEFAULT false
) RETURNS TABLE (id uuid, status outbox.status)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    left_over uuid[] := ids;
    written bigint;
    settled bigint := 0;
BEGIN
    IF cardinality(ids) IS DISTINCT FROM cardinality(statuses) OR cardinality(ids) IS DISTINCT FROM cardinality(errors) THEN
        RAISE EXCEPTION 'ids, statuses and errors must have one element per event'
            USING ERRCODE = 'array_subscript_error',
                  DETAIL = format('They have %s, %s and %s.', cardinality(ids), cardinality(statuses), cardinality(errors));
    END IF;
    -- Nearly every batch is like this. The extension writes as much of it as it can without a statement, and returns the rest.
    IF cardinality(ids) > 0 AND NOT skip_locked AND 'SENT' = ALL (statuses) THEN
        left_over := outbox.settle_sent(ids);
        settled := cardinality(ids) - cardinality(left_over);
    END IF;
    IF skip_locked AND cardinality(left_over) > 0 THEN
        left_over := ARRAY(
            SELECT e.id FROM outbox.events AS e
            WHERE e.id = ANY (left_over)
            ORDER BY e.id
            FOR NO KEY UPDATE SKIP LOCKED
        );
    END IF;
    IF cardinality(left_over) > 0 THEN
        UPDATE outbox.events AS e
        SET status = verdict.status,
            attempts = e.attempts + CASE WHEN verdict.status = 'PENDING' AND verdict.error IS NULL THEN 0 ELSE 1 END,
            holds_key = coalesce(verdict.holds, false),
            available_at = CASE WHEN verdict.status = 'PENDING'
                THEN now() + make_interval(secs => verdict.retry_ms / 1000.0) ELSE e.available_at END,
            last_error = CASE verdict.status WHEN 'PENDING' THEN coalesce(verdict.error, e.last_error) WHEN 'FAILED' THEN verdict.error END,
            first_attempted_at = CASE WHEN verdict.status = 'PENDING' AND verdict.error IS NOT NULL
                THEN coalesce(e.first_attempted_at, now()) ELSE e.first_attempted_at END,
            last_attempted_at = now(),
            processed_at = CASE WHEN verdict.status <> 'PENDING' THEN now() END
        FROM (
            SELECT * FROM unnest(ids, statuses, errors, retry_ms, holds) AS v (id, status, error, retry_ms, holds)
            WHERE cardinality(left_over) = cardinality(ids) OR v.id = ANY (left_over)
            ORDER BY v.id
        ) AS verdict
        WHERE e.id = verdict.id
          -- Not "= 'PENDING'": the planner would take that for an invitation to scan events_pending once per event.
          AND e.status NOT IN ('SENT', 'FAILED');
        GET DIAGNOSTICS written = ROW_COUNT;
        settled := settled + written;
    END IF;

    IF settled < cardinality(ids) THEN
        -- This statement may see more than the one above did: a row that came in between is PENDING and was not
        -- attempted in this transaction.
        RETURN QUERY
            SELECT v.id, e.status
            FROM unnest(ids, statuses, holds) AS v (id, status, holds)
            LEFT JOIN outbox.events AS e ON e.id = v.id
            WHERE e.id IS NULL
               OR e.status = 'PENDING' AND e.last_attempted_at IS DISTINCT FROM now()
               OR e.status <> 'PENDING' AND e.last_attempted_at IS DISTINCT FROM now() AND (v.status = 'PENDING' OR v.holds);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean) IS
    'Relay: writes verdicts back; returns the events that it could not write.';
-- Makes the publication that the relay reads: inserts into one table. Says what was done: created, exists, or repaired.
--
-- SECURITY DEFINER, because only the table's owner can publish it. A publication that this function has made is repaired when it
-- has lost the table, as after DROP EXTENSION or a restore, or publishes only some of its columns or rows; its comment tells which
-- one that is. One of somebody else's making is left alone: whoever reads it may not be meant to see more than it publishes.
CREATE OR REPLACE FUNCTION outbox.ensure_publication(name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    events CONSTANT oid := 'outbox.events'::regclass;
    mark CONSTANT text := 'Inserts of outbox.events for the relay, made by outbox.ensure_publication()';
    publication pg_publication;
    has_table boolean;
    has_other boolean;
    has_schema boolean := false;
    is_partial boolean;
    is_own boolean;
BEGIN
    FOR attempt IN 1..2 LOOP
        SELECT * INTO publication FROM pg_publication AS p WHERE p.pubname = ensure_publication.name;
        -- Read from here and not from the view pg_publication_tables, which waits for whoever has locked one of the tables
        -- (since PostgreSQL 17). With a list of columns or a row filter (since PostgreSQL 15) only a part is published.
        SELECT coalesce(bool_or(r.prrelid = events), false), coalesce(bool_or(r.prrelid <> events), false),
               coalesce(bool_or(r.prrelid = events
                   AND (to_jsonb(r) ->> 'prattrs' IS NOT NULL OR to_jsonb(r) ->> 'prqual' IS NOT NULL)), false)
        INTO has_table, has_other, is_partial
        FROM pg_publication_rel AS r WHERE r.prpubid = publication.oid;
        IF to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL THEN -- since PostgreSQL 15
            EXECUTE 'SELECT coalesce(bool_or(n.pnnspid = $2), false), $3 OR coalesce(bool_or(n.pnnspid <> $2), false)
                     FROM pg_publication_namespace AS n WHERE n.pnpubid = $1'
            INTO has_schema, has_other USING publication.oid, (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = events), has_other;
        END IF;
        has_table := has_table OR has_schema OR coalesce(publication.puballtables, false);
        has_other := has_other OR coalesce(publication.puballtables, false);
        IF has_table AND publication.pubinsert AND NOT is_partial THEN
            RETURN 'exists';
        END IF;
        is_own := obj_description(publication.oid, 'pg_publication') = mark;
        IF publication.oid IS NOT NULL AND is_own IS NOT TRUE OR has_other AND NOT (has_table AND publication.pubinsert) THEN
            RAISE EXCEPTION 'publication % belongs to something else', name
                USING ERRCODE = 'duplicate_object',
                      DETAIL = 'It does not publish whole rows of every insert into outbox.events.',
                      HINT = 'Choose another name, or let it publish them.';
        END IF;
        -- One relay at a time makes or repairs the publication. Another may have done so while this one waited for the lock.
        IF attempt = 1 THEN
            LOCK TABLE outbox.events IN SHARE UPDATE EXCLUSIVE MODE;
        END IF;
    END LOOP;

    IF publication.oid IS NULL THEN
        EXECUTE format('CREATE PUBLICATION %I FOR TABLE outbox.events WITH (publish = ''insert'')', name);
        EXECUTE format('COMMENT ON PUBLICATION %I IS %L', name, mark);
        RETURN 'created';
    END IF;
    IF is_partial THEN
        EXECUTE format('ALTER PUBLICATION %I DROP TABLE outbox.events', name);
    END IF;
    IF is_partial OR NOT has_table THEN
        EXECUTE format('ALTER PUBLICATION %I ADD TABLE outbox.events', name);
    END IF;
    IF NOT has_other THEN
        EXECUTE format('ALTER PUBLICATION %I SET (publish = ''insert'')', name);
    END IF;
    RETURN 'repaired';
END
$$;
COMMENT ON FUNCTION outbox.ensure_publication(text) IS 'Relay: makes or repairs its publication.';
-- Who has replayed or released what. outbox.replay(), replay_many() and release() write a row when they have changed something, in the
-- same transaction.
CREATE TABLE outbox.audit (
    id      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    action  text        NOT NULL,
    filter  jsonb       NOT NULL,
    events  bigint      NOT NULL,
    who     text,
    role    text        NOT NULL DEFAULT session_user,
    program text        NOT NULL DEFAULT current_setting('application_name')
);
COMMENT ON TABLE outbox.audit IS 'Who has replayed or released what.';
COMMENT ON COLUMN outbox.audit.action IS 'replay or release.';
COMMENT ON COLUMN outbox.audit.filter IS 'Which events: the arguments that were given.';
COMMENT ON COLUMN outbox.audit.events IS 'How many events were changed.';
COMMENT ON COLUMN outbox.audit.who IS 'For whom the session acted, as it said itself: the setting outbox.operator.';
COMMENT ON COLUMN outbox.audit.role IS 'The role that logged in.';
COMMENT ON COLUMN outbox.audit.program IS 'The application_name of the session.';

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
-- Makes the relay deliver one finished event again, with the same id. Returns true if there is such an event, false if it is
-- unknown or still PENDING.
CREATE OR REPLACE FUNCTION outbox.replay(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE outbox.events AS e SET status = 'PENDING'
    WHERE e.id = replay.id AND e.status IN ('FAILED', 'SENT');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox.note_action('replay', jsonb_build_object('id', replay.id), 1);
    RETURN true;
END
$$;
COMMENT ON FUNCTION outbox.replay(uuid) IS 'Makes the relay deliver a FAILED or SENT event again, with the same id.';
-- Makes the relay deliver all events that fit again, oldest first, and returns how many. At least one filter besides status must be
-- given, so that a forgotten argument does not send the history again.
--
--     SELECT outbox.replay_many(topic => 'orders.created', error_like => '%NO_ROUTE%');
--     SELECT outbox.replay_many(created_from => now() - interval '1 hour', status => 'SENT', max_events => 1000);
--
-- Not an overload of outbox.replay(id): PostgreSQL would take replay('0190…') for the one with a text argument.
CREATE OR REPLACE FUNCTION outbox.replay_many(
    topic          text          DEFAULT NULL,
    aggregate_type text          DEFAULT NULL,
    aggregate_id   text          DEFAULT NULL,
    created_from   timestamptz   DEFAULT NULL, -- inclusive
    created_to     timestamptz   DEFAULT NULL, -- exclusive
    error_like     text          DEFAULT NULL, -- a LIKE pattern
    status         outbox.status DEFAULT 'FAILED',
    max_events     bigint        DEFAULT NULL,
    topic_like     text          DEFAULT NULL, -- a LIKE pattern
    correlation_id text          DEFAULT NULL,
    ids            uuid[]        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan -- one plan for all calls would leave no index to any of the filters
AS $$
DECLARE
    replayed bigint;
BEGIN
    IF num_nonnulls(topic, aggregate_type, aggregate_id, created_from, created_to, error_like, topic_like, correlation_id, ids) = 0 THEN
        RAISE EXCEPTION 'replay_many needs a filter'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give topic, topic_like, aggregate_type, aggregate_id, correlation_id, created_from, created_to, error_like or ids. '
                         'For all events, created_to => now().';
    END IF;
    IF replay_many.status IS NULL OR replay_many.status = 'PENDING' THEN
        RAISE EXCEPTION 'status must be FAILED or SENT'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A PENDING event is owed to the broker already.';
    END IF;
    IF max_events < 0 THEN
        RAISE EXCEPTION 'max_events cannot be negative, and is %', max_events
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for all events that fit.';
    END IF;

    WITH chosen AS MATERIALIZED (
        SELECT e.id
        FROM outbox.events AS e
        WHERE e.status = replay_many.status
          AND (replay_many.topic IS NULL OR e.topic = replay_many.topic)
          AND (replay_many.aggregate_type IS NULL OR e.aggregate_type = replay_many.aggregate_type)
          AND (replay_many.aggregate_id IS NULL OR e.aggregate_id = replay_many.aggregate_id)
          AND (replay_many.created_from IS NULL OR e.created_at >= replay_many.created_from)
          AND (replay_many.created_to IS NULL OR e.created_at < replay_many.created_to)
          AND (replay_many.error_like IS NULL OR e.last_error LIKE replay_many.error_like)
          AND (replay_many.topic_like IS NULL OR e.topic LIKE replay_many.topic_like)
          AND (replay_many.correlation_id IS NULL OR e.correlation_id = replay_many.correlation_id)
          AND (replay_many.ids IS NULL OR e.id = ANY (replay_many.ids))
        ORDER BY e.seq
        LIMIT replay_many.max_events
        FOR NO KEY UPDATE
    )
    UPDATE outbox.events AS e SET status = 'PENDING' FROM chosen WHERE e.id = chosen.id;
    GET DIAGNOSTICS replayed = ROW_COUNT;
    IF replayed > 0 THEN
        PERFORM outbox.note_action('replay', jsonb_build_object(
            'topic', topic, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'created_from', created_from,
            'created_to', created_to, 'error_like', error_like, 'status', replay_many.status, 'max_events', max_events,
            'topic_like', topic_like, 'correlation_id', correlation_id,
            'ids', CASE WHEN cardinality(ids) <= 100 THEN to_jsonb(ids) END -- more would swell the log of actions
        ), replayed);
    END IF;
    RETURN replayed;
END
$$;
COMMENT ON FUNCTION outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[]) IS
    'Makes the relay deliver all finished events that fit again; returns how many.';
-- Lets the events behind a FAILED one go on without it. (To deliver the FAILED event after all, replay it: the others then go
-- on behind it.) Returns true if the event held its key.
CREATE OR REPLACE FUNCTION outbox.release(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE outbox.events AS e SET holds_key = false
    WHERE e.id = release.id AND e.status = 'FAILED' AND e.holds_key;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox.note_action('release', jsonb_build_object('id', release.id), 1);
    RETURN true;
END
$$;
COMMENT ON FUNCTION outbox.release(uuid) IS 'Lets the events go on that a FAILED event with their key holds back.';
-- Retention: finished events are deleted once they are old, page range after page range, in short transactions. That needs no index,
-- takes no lock that an emitter waits for, and may end and begin again at any time. VACUUM makes the room free for new events.

-- Whether an event has been finished for so long that it may go: SENT before sent_before, FAILED before failed_before. Null keeps them.
-- The planner makes it a part of the query that calls it.
CREATE OR REPLACE FUNCTION outbox.is_old(
    status outbox.status, finished_at timestamptz, sent_before timestamptz, failed_before timestamptz
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(status = 'SENT' AND finished_at < sent_before OR status = 'FAILED' AND finished_at < failed_before, false);
COMMENT ON FUNCTION outbox.is_old(outbox.status, timestamptz, timestamptz, timestamptz) IS
    'Internal to delete_finished(): whether an event has been finished for long enough.';

-- The part of delete_finished() that needs the owner's rights.
--
-- What is PENDING stays, and so does what holds its key, however old: the events behind it wait for it. A row that someone else has
-- locked is passed over, and one whose deletion is refused, by a foreign key that refers to it or by a trigger, is kept and told of.
-- Neither keeps the others: when the statement for all of them has failed, one is tried after the other.
CREATE OR REPLACE FUNCTION outbox.delete_pages(
    sent_before timestamptz, failed_before timestamptz, from_page bigint, pages integer,
    OUT deleted         bigint,
    OUT holding         bigint,      -- old, but they hold their keys
    OUT locked          bigint,      -- old, but someone else had them locked
    OUT refused         bigint,      -- old, but their deletion was refused
    OUT refused_id      uuid,        -- one of these
    OUT refused_because text,        -- what PostgreSQL said to that
    OUT oldest_sent     timestamptz, -- when the oldest SENT event was finished that these pages still have
    OUT oldest_failed   timestamptz, -- the same of FAILED ones that hold no key
    OUT table_pages     bigint       -- how many pages the table has
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '250ms' -- less than deadlock_timeout, so that nobody's transaction is cancelled because of this one
SET enable_seqscan = off -- whatever the table was like when the plan was made
SET jit = off -- a table that refers to this one without an index is read as a whole, a plan that seems dear enough to compile
AS $$
DECLARE
    last_page CONSTANT bigint := 4294967295;
    first tid;
    behind tid;
    place tid;
    event_id uuid;
    left_over_id uuid;
    left_over bigint;
    has_failed boolean := false;
BEGIN
    IF from_page IS NULL OR pages IS NULL OR from_page NOT BETWEEN 0 AND last_page OR pages < 1 THEN
        RAISE EXCEPTION 'from_page and pages must say where to look'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('They are %s and %s.', coalesce(from_page::text, 'null'), coalesce(pages::text, 'null')),
                  HINT = 'Pages are counted from 0. To look at the whole table: CALL outbox.maintain(retention => ''30 days'');';
    END IF;
    first := format('(%s,0)', from_page)::tid;
    behind := format('(%s,0)', least(from_page + pages, last_page))::tid;
    deleted := 0;
    refused := 0;
    BEGIN
        DELETE FROM ONLY outbox.events AS e
        WHERE e.ctid >= first AND e.ctid < behind
          AND NOT e.holds_key AND outbox.is_old(e.status, coalesce(e.processed_at, e.created_at), sent_before, failed_before);
        GET DIAGNOSTICS deleted = ROW_COUNT;
    EXCEPTION WHEN OTHERS THEN
        has_failed := true;
    END;
    IF has_failed THEN
        FOR place, event_id IN
            SELECT e.ctid, e.id FROM ONLY outbox.events AS e
            WHERE e.ctid >= first AND e.ctid < behind
              AND NOT e.holds_key AND outbox.is_old(e.status, coalesce(e.processed_at, e.created_at), sent_before, failed_before)
            FOR UPDATE SKIP LOCKED
        LOOP
            BEGIN
                DELETE FROM ONLY outbox.events AS e WHERE e.ctid = place;
                IF FOUND THEN
                    deleted := deleted + 1;
                ELSE
                    refused := refused + 1;
                    refused_id := event_id;
                END IF;
            EXCEPTION WHEN OTHERS THEN
                refused := refused + 1;
                refused_id := event_id;
                refused_because := sqlerrm;
            END;
        END LOOP;
    END IF;

    SELECT count(*) FILTER (WHERE e.is_old AND e.holds_key), count(*) FILTER (WHERE e.is_old AND NOT e.holds_key),
           (array_agg(e.id) FILTER (WHERE e.is_old AND NOT e.holds_key))[1],
           min(e.finished_at) FILTER (WHERE e.status = 'SENT'),
           min(e.finished_at) FILTER (WHERE e.status = 'FAILED' AND NOT e.holds_key)
    INTO holding, left_over, left_over_id, oldest_sent, oldest_failed
    FROM (
        SELECT e.id, e.status, e.holds_key, f.finished_at, outbox.is_old(e.status, f.finished_at, sent_before, failed_before) AS is_old
        FROM ONLY outbox.events AS e
        CROSS JOIN LATERAL (SELECT nullif(coalesce(e.processed_at, e.created_at), 'infinity') AS finished_at) AS f
        WHERE e.ctid >= first AND e.ctid < behind
    ) AS e;
    -- The statement for all passes over no row by itself, and waits for no lock for long.
    IF NOT has_failed THEN
        refused := left_over;
        refused_id := left_over_id;
    END IF;
    IF refused > 0 THEN
        refused_because := coalesce(refused_because, 'a trigger on outbox.events returned null');
    END IF;
    locked := left_over - refused;
    table_pages := pg_relation_size('outbox.events') / current_setting('block_size')::bigint;
END
$$;
COMMENT ON FUNCTION outbox.delete_pages(timestamptz, timestamptz, bigint, integer) IS
    'Internal to delete_finished(): deletes with the owner''s rights.';

-- One step: deletes what is old in these pages.
--
-- Constraints are checked at once, because a foreign key that is checked at COMMIT would take everything back. That runs what the caller
-- has deferred until then, so it is done with the caller's rights.
CREATE OR REPLACE FUNCTION outbox.delete_finished(
    sent_before timestamptz, failed_before timestamptz, from_page bigint, pages integer,
    OUT deleted bigint, OUT holding bigint, OUT locked bigint, OUT refused bigint, OUT refused_id uuid, OUT refused_because text,
    OUT oldest_sent timestamptz, OUT oldest_failed timestamptz, OUT table_pages bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    SELECT d.* INTO deleted, holding, locked, refused, refused_id, refused_because, oldest_sent, oldest_failed, table_pages
    FROM outbox.delete_pages(sent_before, failed_before, from_page, pages) AS d;
END
$$;
COMMENT ON FUNCTION outbox.delete_finished(timestamptz, timestamptz, bigint, integer) IS
    'Deletes finished events that are old, in some pages of the table.';

-- The whole table, for pg_cron or by hand, where no relay does it:
--
--     CALL outbox.maintain(retention => '30 days');
--
-- It commits after each step, so it cannot be called in a transaction block. Each transaction pins the search_path for itself: a
-- procedure that commits can have no such setting.
CREATE OR REPLACE PROCEDURE outbox.maintain(retention interval DEFAULT NULL, retention_failed interval DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    step_pages CONSTANT integer := 256; -- 2 MiB, some thousand events, some ten milliseconds
    since CONSTANT timestamptz := pg_catalog.now();
    step record;
    page bigint := 0;
    pages bigint;
    deleted bigint := 0;
    holding bigint := 0;
    locked bigint := 0;
    refused bigint := 0;
    refused_id uuid;
    refused_because text;
    tries integer := 60; -- half a minute
BEGIN
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF num_nonnulls(retention, retention_failed) = 0 OR retention < '0' OR retention_failed < '0' THEN
        RAISE EXCEPTION '%', CASE WHEN num_nonnulls(retention, retention_failed) = 0 THEN 'maintain() needs to know how long events are kept'
                                  ELSE 'events cannot be kept for less than no time' END
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'CALL outbox.maintain(retention => ''30 days''); deletes what became SENT before that. retention_failed does the '
                         'same for FAILED events, which can no longer be replayed then.';
    END IF;
    LOOP
        SET LOCAL search_path = pg_catalog, pg_temp;
        BEGIN
            SELECT * INTO step FROM outbox.delete_finished(since - retention, since - retention_failed, page, step_pages);
        EXCEPTION WHEN lock_not_available THEN -- of the table: a row that is locked is passed over
            tries := tries - 1;
            IF tries = 0 THEN
                RAISE;
            END IF;
            CONTINUE;
        END;
        deleted := deleted + step.deleted;
        holding := holding + step.holding;
        locked := locked + step.locked;
        refused := refused + step.refused;
        refused_id := coalesce(refused_id, step.refused_id);
        refused_because := coalesce(refused_because, step.refused_because);
        pages := coalesce(pages, step.table_pages); -- events that are written later are not old
        page := page + step_pages;
        COMMIT;
        EXIT WHEN page >= pages;
    END LOOP;
    SET LOCAL search_path = pg_catalog, pg_temp;
    RAISE NOTICE 'deleted % events', deleted;
    IF refused > 0 THEN
        RAISE WARNING '% old events cannot be deleted', refused
            USING DETAIL = format('One is %s: %s.', refused_id, refused_because),
                  HINT = format('SELECT * FROM outbox.events WHERE id = %L;', refused_id);
    END IF;
    IF holding > 0 THEN
        RAISE NOTICE '% old events hold their keys and are kept', holding
            USING HINT = 'SELECT * FROM outbox.events WHERE holds_key; outbox.replay(id) or outbox.release(id) ends a hold.';
    END IF;
    IF locked > 0 THEN
        RAISE NOTICE '% old events were locked by others and wait for the next call', locked;
    END IF;
END
$$;
COMMENT ON PROCEDURE outbox.maintain(interval, interval) IS 'Deletes finished events that are old, in short transactions.';
-- Two questions an operator has. Both are answered from the partial indexes, whatever the history.

-- What failed, and why? Without payloads.
CREATE OR REPLACE VIEW outbox.failed AS
SELECT seq, id, topic, exchange, event_type, aggregate_type, aggregate_id, correlation_id, attempts, last_error,
       holds_key, created_at, last_attempted_at
FROM outbox.events
WHERE status = 'FAILED'
ORDER BY seq;
COMMENT ON VIEW outbox.failed IS 'Events that the relay has given up, with the reason. See outbox.replay and outbox.replay_many.';

-- How much is owed, and since when? An attempt sets available_at and last_attempted_at, and a replay sets available_at back to null: an
-- event that has both is between two attempts, and stays so when the time of the next one has come.
CREATE OR REPLACE VIEW outbox.backlog AS
SELECT topic,
       count(*) FILTER (WHERE status = 'PENDING' AND (available_at IS NULL OR available_at <= now() AND last_attempted_at IS NULL)) AS pending,
       count(*) FILTER (WHERE status = 'PENDING' AND available_at > now() AND last_attempted_at IS NULL) AS scheduled,
       count(*) FILTER (WHERE status = 'PENDING' AND available_at IS NOT NULL AND last_attempted_at IS NOT NULL) AS retrying,
       count(*) FILTER (WHERE status = 'FAILED') AS failed,
       now() - min(coalesce(available_at, created_at))
           FILTER (WHERE status = 'PENDING' AND (available_at IS NULL OR available_at <= now() AND last_attempted_at IS NULL)) AS oldest_pending
FROM (
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'PENDING' AND available_at IS NULL
    UNION ALL
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'PENDING' AND available_at IS NOT NULL
    UNION ALL
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'FAILED'
) AS unfinished
GROUP BY topic
ORDER BY topic;
COMMENT ON VIEW outbox.backlog IS 'Events not sent, by topic: owed now, scheduled, to be tried again, failed, and the age of the oldest owed.';
-- Counts the events that have failed, or those that are owed and have no time of their own, at a cost that does not grow with them:
-- exactly up to 10,000, then by a sample. A hundred short stretches of seq, evenly spread over the rest, say how dense these events
-- lie. (The planner's statistics are as old as the last ANALYZE, which comes long after an outage has begun.)
--
-- The condition is written out in the statements, or the planner would not see that the partial index fits.
CREATE OR REPLACE FUNCTION outbox.count_by_seq(wanted outbox.status, OUT events bigint, OUT is_estimate boolean)
LANGUAGE plpgsql STABLE -- with the settings of health(), which alone calls it
AS $$
DECLARE
    max_exact CONSTANT integer := 10000;
    stretches CONSTANT integer := 100;
    condition CONSTANT text := CASE wanted
        WHEN 'PENDING' THEN 'status = ''PENDING'' AND available_at IS NULL'
        WHEN 'FAILED' THEN 'status = ''FAILED'''
    END;
    reached bigint;
    distance numeric; -- from the start of one stretch to that of the next
    length bigint;
    density numeric;
BEGIN
    EXECUTE format('SELECT count(*), max(seq) FROM (
        SELECT seq FROM outbox.events WHERE %s ORDER BY seq LIMIT %s) AS oldest', condition, max_exact + 1)
    INTO events, reached;
    is_estimate := events > max_exact;
    IF is_estimate THEN
        EXECUTE format('SELECT (seq - $1)::numeric / $2 FROM outbox.events WHERE %s ORDER BY seq DESC LIMIT 1', condition)
        INTO distance USING reached, stretches;
        length := least(100, ceil(distance));
        EXECUTE format('SELECT sum(found.events) / ($2 * $4)
            FROM generate_series(0, $2 - 1) AS number
            CROSS JOIN LATERAL (
                SELECT count(*) AS events FROM outbox.events
                WHERE %s AND seq > $1 + floor(number * $3)::bigint AND seq <= $1 + floor(number * $3)::bigint + $4
            ) AS found', condition)
        INTO density USING reached, stretches, distance, greatest(length, 1);
        events := events + round(density * distance * stretches);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.count_by_seq(outbox.status) IS
    'Internal to health(): how many events are FAILED, or PENDING without a time; exact up to 10,000.';
-- Answers "do events flow?" in one row, to alert on:
--
--     SELECT healthy, reason FROM outbox.health();
--     SELECT * FROM outbox.health(max_pending_age => '5 min', max_failed => 100);
--
-- healthy is false if anything is wrong, and reason then says what, the worst first. It is null if nothing is known to be wrong and
-- something could not be seen: unseen says what. What the relay's own process knows, such as a broker that is away, is not in the
-- database: it shows here as events that grow old.
--
-- Whatever is in the table, at most some ten thousand entries of each partial index are read. Counts are exact up to 10,000, and an
-- estimate beyond.
CREATE OR REPLACE FUNCTION outbox.health(
    slot             text     DEFAULT 'outbox',
    max_pending_age  interval DEFAULT '1 min',
    max_retrying_age interval DEFAULT '10 min',
    max_failed       bigint   DEFAULT 0,
    max_kept_bytes   bigint   DEFAULT 1073741824, -- 1 GiB
    OUT healthy               boolean,
    OUT reason                text,
    OUT unseen                text,
    OUT pending               bigint,
    OUT pending_is_estimate   boolean,
    OUT oldest_pending        interval,
    OUT retrying              bigint,
    OUT oldest_retrying       interval,
    OUT scheduled             bigint,
    OUT scheduled_is_estimate boolean, -- and retrying
    OUT failed                bigint,
    OUT failed_is_estimate    boolean,
    OUT keys_held             bigint,
    OUT slot_active           boolean,
    OUT slot_wal_status       text,
    OUT slot_kept_bytes       bigint,
    OUT slot_safe_bytes       bigint,
    OUT slot_behind_bytes     bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    max_exact CONSTANT integer := 10000;
    since CONSTANT timestamptz := clock_timestamp();
    overdue bigint;
    oldest_overdue timestamptz;
    with_a_time bigint;
    wal_end pg_lsn;
    slot_found boolean;
    problems text[];
BEGIN
    -- Owed now: events without a time of their own, and those whose time has come.
    SELECT c.events, c.is_estimate INTO pending, pending_is_estimate FROM outbox.count_by_seq('PENDING') AS c;
    SELECT since - e.created_at INTO oldest_pending
    FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq LIMIT 1;

    -- An attempt sets available_at and last_attempted_at, a replay sets available_at back to null. So an event with both is between two
    -- attempts, whether or not the time of the next one has come.
    SELECT count(*) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           since - min(coalesce(e.first_attempted_at, e.created_at)) FILTER (WHERE e.last_attempted_at IS NOT NULL),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at > since),
           count(*) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since),
           min(e.available_at) FILTER (WHERE e.last_attempted_at IS NULL AND e.available_at <= since)
    INTO retrying, oldest_retrying, scheduled, overdue, oldest_overdue
    FROM (
        SELECT * FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL
        ORDER BY e.available_at, e.seq LIMIT max_exact + 1
    ) AS e;
    pending := pending + overdue;
    oldest_pending := greatest(oldest_pending, since - oldest_overdue);
    -- Beyond, as many as the index has had at the last VACUUM or ANALYZE. Retries come due soon, so what is not reached is scheduled
    -- if anything that was reached is.
    scheduled_is_estimate := retrying + scheduled + overdue > max_exact;
    IF scheduled_is_estimate THEN
        SELECT greatest(c.reltuples, 0) - (retrying + scheduled + overdue) INTO with_a_time
        FROM pg_class AS c WHERE c.oid = to_regclass('outbox.events_due');
        IF with_a_time > 0 AND scheduled > 0 THEN
            scheduled := scheduled + with_a_time;
        ELSIF with_a_time > 0 AND retrying > 0 THEN
            retrying := retrying + with_a_time;
        ELSIF with_a_time > 0 THEN
            pending := pending + with_a_time;
        END IF;
        pending_is_estimate := pending_is_estimate OR scheduled + retrying = 0;
    END IF;

    SELECT c.events, c.is_estimate INTO failed, failed_is_estimate FROM outbox.count_by_seq('FAILED') AS c;
    SELECT count(*) INTO keys_held
    FROM (SELECT FROM outbox.events AS e WHERE e.holds_key LIMIT max_exact) AS e;

    IF pg_is_in_recovery() THEN
        unseen := 'this server is a standby: the slot and the relay are on its primary';
    ELSE
        BEGIN
            wal_end := pg_current_wal_lsn();
            SELECT true, s.active, s.wal_status, pg_wal_lsn_diff(wal_end, s.restart_lsn), s.safe_wal_size,
                   pg_wal_lsn_diff(wal_end, s.confirmed_flush_lsn)
            INTO slot_found, slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
            FROM pg_replication_slots AS s
            WHERE s.slot_name = health.slot AND s.database = current_database();
        EXCEPTION WHEN insufficient_privilege THEN
            unseen := format('the slot: %s (the owner of outbox.health() lacks that right)', sqlerrm);
        END;
    END IF;

    problems := array_remove(ARRAY[
        CASE WHEN unseen IS NULL AND slot_found IS NULL
            THEN format('this database has no replication slot "%s", so no relay is at work', health.slot) END,
        CASE WHEN slot_wal_status = 'lost'
            THEN format('PostgreSQL has given up the slot "%s" (no event is lost: a relay creates it again when it starts)', health.slot)
            WHEN NOT slot_active
            THEN format('no relay reads the slot "%s"', health.slot)
            WHEN slot_found AND slot_behind_bytes IS NULL
            THEN format('a relay makes the slot "%s", and waits for older transactions to end', health.slot) END,
        CASE WHEN oldest_pending > max_pending_age
            THEN format(CASE keys_held WHEN 0 THEN 'events do not leave: %s pending, the oldest for %s'
                    ELSE '%s wait, the oldest for %s, perhaps behind one of %s that hold their keys' END,
                concat(CASE WHEN pending_is_estimate THEN 'about ' END, pending), date_trunc('second', oldest_pending), keys_held) END,
        CASE WHEN slot_wal_status = 'unreserved'
            THEN format('the slot "%s" is about to be lost: it keeps %s of WAL, more than max_slot_wal_keep_size',
                health.slot, pg_size_pretty(slot_kept_bytes))
            WHEN slot_safe_bytes < slot_kept_bytes / 4 -- a fifth of what it may keep
            THEN format('the slot "%s" is about to be lost: it keeps %s of WAL, and may keep %s more',
                health.slot, pg_size_pretty(slot_kept_bytes), pg_size_pretty(slot_safe_bytes))
            WHEN slot_kept_bytes > max_kept_bytes AND slot_wal_status <> 'lost'
            THEN format('the slot "%s" keeps %s of WAL', health.slot, pg_size_pretty(slot_kept_bytes)) END,
        CASE WHEN failed > max_failed
            THEN format('%s failed', concat(CASE WHEN failed_is_estimate THEN 'about ' END, failed)) END,
        CASE WHEN oldest_retrying > max_retrying_age
            THEN format('%s are refused again and again, the oldest for %s',
                concat(CASE WHEN scheduled_is_estimate THEN 'about ' END, retrying), date_trunc('second', oldest_retrying)) END
    ], NULL);
    reason := nullif(array_to_string(problems, '; '), '');
    healthy := CASE WHEN reason IS NOT NULL THEN false WHEN unseen IS NULL THEN true END;
END
$$;
COMMENT ON FUNCTION outbox.health(text, interval, interval, bigint, bigint) IS
    'One row to alert on: whether events flow, and if not why.';
-- Returns what has failed, by topic and error: the commonest first. Reads the latest max_rows failed events, so that it stays quick if
-- millions have failed; if failed adds up to max_rows, there may be more.
CREATE OR REPLACE FUNCTION outbox.failures(max_rows integer DEFAULT 10000)
RETURNS TABLE (
    topic text, last_error text, failed bigint, keys_held bigint, first_created_at timestamptz, last_attempted_at timestamptz,
    example_id uuid
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF max_rows < 0 THEN
        RAISE EXCEPTION 'max_rows cannot be negative, and is %', max_rows
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the latest 10,000 failed events.';
    END IF;
    RETURN QUERY
        SELECT e.topic, e.last_error, count(*), count(*) FILTER (WHERE e.holds_key), min(e.created_at), max(e.last_attempted_at),
               (array_agg(e.id ORDER BY e.seq DESC))[1]
        FROM (SELECT * FROM outbox.events WHERE status = 'FAILED' ORDER BY seq DESC LIMIT max_rows) AS e
        GROUP BY e.topic, e.last_error
        ORDER BY count(*) DESC, e.topic, e.last_error;
END
$$;
COMMENT ON FUNCTION outbox.failures(integer) IS 'What has failed, by topic and error; of the latest max_rows failed events.';
-- The version of this schema. A relay works with the same major and minor version.
CREATE OR REPLACE FUNCTION outbox.version() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '0.2.0';
COMMENT ON FUNCTION outbox.version() IS 'Version of the outbox schema.';
-- emit() for a payload that comes as a string: what drivers send for a plain parameter, and what psql sends for a literal. Without this
-- function PostgreSQL could not choose between jsonb and bytea: "function outbox.emit(unknown, unknown) is not unique".
--
-- The string is JSON; with a content_type it is any text, and the body has its bytes in UTF-8. (It must not be left to emit() of a bytea:
-- PostgreSQL would read '{"a": "b\\c"}' in bytea's own notation, and the body would lose a backslash.)
--
-- The function is inlined into the call, so it costs nothing, unless an argument is volatile or dear.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        text,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL,
    content_type   text        DEFAULT NULL
) RETURNS uuid
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN content_type IS NULL THEN
        outbox.emit(topic, payload::jsonb, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at)
    ELSE
        outbox.emit(topic, pg_catalog.convert_to(payload, 'UTF8'), event_type, aggregate_type, aggregate_id, headers, correlation_id,
                    exchange, available_at, content_type)
END;
-- Grants what an application's role needs: emit(), and INSERT of an envelope for applications that cannot call a function. The
-- role can read nothing and forge no status. Without SELECT an INSERT cannot say RETURNING id: let the application choose the id.
CREATE OR REPLACE FUNCTION outbox.grant_emit(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz),
        outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text) TO %s', role);
    EXECUTE format('GRANT INSERT (id, topic, exchange, event_type, aggregate_type, aggregate_id, payload, payload_bytes,
        content_type, headers, correlation_id, available_at) ON outbox.events TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_emit(regrole) IS 'Lets a role emit events, and nothing else.';
-- Grants what the relay's role needs in this schema. The role also needs REPLICATION, to read the write-ahead log: an attribute
-- that only a superuser or a cloud's admin can give. On Amazon RDS and Aurora no role has that attribute; membership in
-- rds_replication takes its place.
CREATE OR REPLACE FUNCTION outbox.grant_relay(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.owed(bigint, integer, text[], text[], bigint, boolean),
        outbox.pending(bigint, integer, bigint, text[], text[], bigint, boolean, boolean),
        outbox.due(integer, bigint, timestamptz, bigint, bigint, boolean, boolean),
        outbox.next_due(),
        outbox.flush(pg_lsn),
        outbox.health(text, interval, interval, bigint, bigint),
        outbox.holding(integer),
        outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean),
        outbox.ensure_publication(text) TO %s', role);
    IF NOT EXISTS (
        SELECT FROM pg_roles AS r
        WHERE (r.oid = role AND (r.rolreplication OR r.rolsuper))
           OR (r.rolname = 'rds_replication' AND pg_has_role(role, r.oid, 'MEMBER'))
    ) THEN
        RAISE NOTICE '% also needs the right REPLICATION', role
            USING HINT = format(CASE WHEN to_regrole('rds_replication') IS NULL
                THEN 'As a superuser or the cloud''s admin: ALTER ROLE %s REPLICATION;'
                ELSE 'GRANT rds_replication TO %s;' END, role);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.grant_relay(regrole) IS 'Lets a role run the relay; it also needs REPLICATION.';
-- Grants what an operator's role needs: to look at everything, to replay and to release.
CREATE OR REPLACE FUNCTION outbox.grant_operate(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.grant_monitor(role);
    EXECUTE format('GRANT SELECT ON outbox.events, outbox.failed, outbox.backlog TO %s', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.replay(uuid),
        outbox.release(uuid),
        outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[]) TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_operate(regrole) IS 'Lets a role read events and replay them.';
-- Grants what monitoring needs: outbox.health(), the views, and events without their payloads and headers. The role can change nothing.
CREATE OR REPLACE FUNCTION outbox.grant_monitor(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.health(text, interval, interval, bigint, bigint),
        outbox.failures(integer) TO %s', role);
    EXECUTE format('GRANT SELECT ON outbox.failed, outbox.backlog, outbox.audit TO %s', role);
    EXECUTE format('GRANT SELECT (id, seq, created_at, status, attempts, replays, holds_key, topic, exchange, event_type, aggregate_type,
        aggregate_id, content_type, correlation_id, available_at, last_error, first_attempted_at, last_attempted_at, processed_at)
        ON outbox.events TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_monitor(regrole) IS 'Lets a role see how events fare, without payloads and headers.';
-- Grants what retention needs: to delete what is finished, whatever its age. Nobody else but the owner may.
CREATE OR REPLACE FUNCTION outbox.grant_maintain(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.delete_finished(timestamptz, timestamptz, bigint, integer),
        outbox.delete_pages(timestamptz, timestamptz, bigint, integer) TO %s', role);
    EXECUTE format('GRANT EXECUTE ON PROCEDURE outbox.maintain(interval, interval) TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_maintain(regrole) IS 'Lets a role delete finished events, as retention does.';
-- Everybody is granted only what cannot do harm: the schema's name, its version, making a uuid (the default of a
-- column), ringing the bell (for a role that may UPDATE status), and emit() of a text, which only calls emit() of a jsonb
-- or of a bytea with the caller's rights.
--
-- One call each grants what an application, the relay, an operator and monitoring need: grant_emit.sql, grant_relay.sql,
-- grant_operate.sql, grant_monitor.sql.
GRANT USAGE ON SCHEMA outbox TO PUBLIC;

REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA outbox FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    outbox.version(),
    outbox.uuid_v7(),
    outbox.ring(),
    outbox.emit(text, text, text, text, text, jsonb, text, text, timestamptz, text) TO PUBLIC;

COMMENT ON FUNCTION outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz) IS
    'Emits an event with this transaction: a JSON body to the routing key topic. Returns its id.';
COMMENT ON FUNCTION outbox.emit(text, text, text, text, text, jsonb, text, text, timestamptz, text) IS
    'Emits an event with this transaction: a JSON body, given as text, or any text with a content_type, to the routing key topic. Returns its id.';
COMMENT ON FUNCTION outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text) IS
    'Emits an event with this transaction: a body of bytes (Protobuf, Avro) to the routing key topic. Returns its id.';
COMMENT ON FUNCTION outbox.event_bytes(jsonb, bytea, jsonb) IS 'Size of an event''s body and headers, uncompressed.';
COMMENT ON FUNCTION outbox.settle_sent(uuid[]) IS
    'Internal to settle(): writes the verdict SENT where that is simple; returns the other events.';
COMMENT ON FUNCTION outbox.uuid_v7() IS 'A UUID version 7 (RFC 9562): sorts by the time it was made.';
COMMIT;
