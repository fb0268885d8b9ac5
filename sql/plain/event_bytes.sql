-- outbox.event_bytes() without the extension, which reads the size without the value (outbox_ext/src/event_bytes.rs): bytes of
-- an event's body and headers, uncompressed.
--
-- octet_length(bytea) reads the length without the value. jsonb has no such function: pg_column_size() tells the stored
-- size, so the value is unpacked first (#> '{}' returns it as it is, after a header of 4 bytes).
CREATE OR REPLACE FUNCTION outbox.event_bytes(payload jsonb, payload_bytes bytea, headers jsonb) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(octet_length(payload_bytes), pg_column_size(payload #> '{}') - 4, 0)
    + coalesce(pg_column_size(headers #> '{}') - 4, 0);
