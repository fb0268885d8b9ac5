CREATE OR REPLACE FUNCTION outbox.event_bytes(payload json, payload_bytes bytea, headers json) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'event_bytes_wrapper';
