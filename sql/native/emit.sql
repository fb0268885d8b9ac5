-- In Rust: outbox_ext/src/emit.rs. native/plain/emit.sql is its twin in SQL.

-- emit() of a JSON text, which is kept and sent as it is written.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        json,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'emit_json_wrapper';

-- emit() of a jsonb, which is printed.
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
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'emit_jsonb_wrapper';

-- emit() of bytes. The arguments have the same order, so that PostgreSQL can tell the functions apart by the payload alone when literals
-- have no type yet; content_type comes after them.
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
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'emit_bytea_wrapper';
