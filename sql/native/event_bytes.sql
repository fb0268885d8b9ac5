-- In Rust: outbox_ext/src/event_bytes.rs. native/plain/event_bytes.sql is its twin in SQL.
CREATE OR REPLACE FUNCTION outbox.event_bytes(payload json, payload_bytes bytea, headers json) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'event_bytes_wrapper';
