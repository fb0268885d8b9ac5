-- Refuses a payload over the owner's limit (payload_limit.sql), or over the setting outbox.max_payload_bytes: 1 MB when it is not set, else
-- a number of bytes or a size with a unit (B, kB, MB). Without the extension PostgreSQL takes any text for it, so a text that is no size is
-- refused here.
CREATE OR REPLACE FUNCTION outbox.check_payload_size(bytes bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := coalesce(nullif(current_setting('outbox.max_payload_bytes', true), ''), '1MB');
    size text[] := regexp_match(setting, '^[[:space:]]*([0-9]{1,9})[[:space:]]*(B|kB|MB)?[[:space:]]*$');
    max_bytes bigint := size[1]::bigint * CASE size[2] WHEN 'kB' THEN 1024 WHEN 'MB' THEN 1024 * 1024 ELSE 1 END;
    owners_bytes bigint := outbox.payload_limit();
BEGIN
    IF max_bytes IS NULL OR max_bytes NOT BETWEEN 1 AND 128 * 1024 * 1024 THEN
        RAISE EXCEPTION 'invalid value for parameter "outbox.max_payload_bytes": "%"', setting
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It is a size from 1B to 128MB.';
    END IF;
    IF bytes > least(max_bytes, owners_bytes) THEN
        RAISE EXCEPTION 'payload is % bytes, the limit is %',
                CASE WHEN bytes > 134217728 THEN 'more than 134217728' ELSE bytes::text END, least(max_bytes, owners_bytes)
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = CASE WHEN owners_bytes < max_bytes THEN 'The limit is the owner''s, of all sessions.'
                      ELSE 'The limit is the setting outbox.max_payload_bytes.' END,
                  HINT = CASE WHEN owners_bytes < max_bytes
                      THEN 'Store the data and emit a reference to it. The owner raises the limit: SELECT outbox.limit_payloads(''64MB'');'
                      ELSE 'Store the data and emit a reference to it, or raise the setting.' END;
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.check_payload_size(bigint) IS 'Refuses a payload over the owner''s limit or outbox.max_payload_bytes.';
