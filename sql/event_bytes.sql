-- Bytes an event takes outside the table, roughly: body and headers, uncompressed.
--
-- octet_length(bytea) reads the length without the value. For jsonb there is nothing alike: pg_column_size() tells the
-- compressed size, so a value that is compressed is unpacked (#> '{}' returns it as it is).
CREATE FUNCTION outbox.event_bytes(payload jsonb, payload_bytes bytea, headers jsonb) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(octet_length(payload_bytes), 0)
    + coalesce(pg_column_size(CASE WHEN pg_column_compression(payload) IS NULL THEN payload ELSE payload #> '{}' END), 0)
    + coalesce(pg_column_size(headers), 0);
COMMENT ON FUNCTION outbox.event_bytes(jsonb, bytea, jsonb) IS 'Size of an event''s body and headers, uncompressed.';
