-- Limits the payloads of all sessions, emitters' included. A session can lower its own limit further (outbox.max_payload_bytes), and lift
-- neither. The relay's memory follows from this limit: docs/delivery.md, promise 8.
--
--     SELECT outbox.limit_payloads('64MB');
--
-- The extension keeps the limit as a setting of the database that only a superuser can set, for sessions that begin later; the plain SQL as
-- a function of its owner's.
CREATE OR REPLACE FUNCTION outbox.limit_payloads(size text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    largest CONSTANT bigint := 128 * 1024 * 1024; -- what RabbitMQ before 4.0 takes by default
    bytes bigint;
BEGIN
    BEGIN
        bytes := pg_size_bytes(size);
    EXCEPTION WHEN invalid_parameter_value OR numeric_value_out_of_range OR invalid_text_representation THEN
        NULL; -- said below
    END;
    IF bytes IS NULL OR bytes NOT BETWEEN 1 AND largest THEN
        RAISE EXCEPTION 'payloads cannot be limited to "%"', size
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a size from 1 byte to 128MB, such as ''16MB'', the default.';
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox') THEN
        EXECUTE format('ALTER DATABASE %I SET outbox.payload_limit = %L', current_database(), bytes);
    ELSE
        EXECUTE format('CREATE OR REPLACE FUNCTION outbox.payload_limit() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE RETURN %s', bytes);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.limit_payloads(text) IS 'Owner: limits the payloads of all sessions, to 16MB for example.';
