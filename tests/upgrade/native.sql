-- The functions that the extension of 0.1.0 and 0.2.0 had in Rust, as pgrx declared them.
CREATE FUNCTION admit() RETURNS trigger STRICT VOLATILE LANGUAGE c AS 'MODULE_PATHNAME', 'admit_wrapper';

CREATE FUNCTION emit(
    topic text, payload bytea, event_type text DEFAULT NULL, aggregate_type text DEFAULT NULL, aggregate_id text DEFAULT NULL,
    headers jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, exchange text DEFAULT NULL, available_at timestamptz DEFAULT NULL,
    content_type text DEFAULT 'application/octet-stream'
) RETURNS uuid VOLATILE LANGUAGE c AS 'MODULE_PATHNAME', 'emit_bytea_wrapper';

CREATE FUNCTION emit(
    topic text, payload jsonb, event_type text DEFAULT NULL, aggregate_type text DEFAULT NULL, aggregate_id text DEFAULT NULL,
    headers jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, exchange text DEFAULT NULL, available_at timestamptz DEFAULT NULL
) RETURNS uuid VOLATILE LANGUAGE c AS 'MODULE_PATHNAME', 'emit_jsonb_wrapper';

CREATE FUNCTION event_bytes(payload jsonb, payload_bytes bytea, headers jsonb) RETURNS bigint
STABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'event_bytes_wrapper';

CREATE FUNCTION settle_sent(ids uuid[]) RETURNS uuid[] STRICT VOLATILE LANGUAGE c AS 'MODULE_PATHNAME', 'settle_sent_wrapper';

CREATE FUNCTION uuid_v7() RETURNS uuid STRICT VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'uuid_v7_wrapper';
