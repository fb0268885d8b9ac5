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
