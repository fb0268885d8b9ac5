-- From 0.2.0 to 0.3.0, the functions that the extension has in Rust. Frozen when 0.3.0 is released.
CREATE FUNCTION outbox.event_bytes(payload json, payload_bytes bytea, headers json) RETURNS bigint
STABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'event_bytes_wrapper';

CREATE FUNCTION outbox.emit(
    topic          text,
    payload        json,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid VOLATILE LANGUAGE c AS 'MODULE_PATHNAME', 'emit_json_wrapper';
