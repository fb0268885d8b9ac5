-- outbox.event_bytes() without the extension, which reads the size without the value (outbox_ext/src/event_bytes.rs): bytes of
-- an event's body and headers, uncompressed.
--
-- octet_length(bytea) reads the length without the value. json has no such function, and is a text as it is stored.
CREATE OR REPLACE FUNCTION outbox.event_bytes(payload json, payload_bytes bytea, headers json) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(octet_length(payload_bytes), octet_length(payload::text), 0) + coalesce(octet_length(headers::text), 0);
