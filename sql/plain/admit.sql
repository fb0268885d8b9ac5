-- outbox.admit() without the extension, which has it in Rust (outbox_ext/src/admit.rs): the trigger that checks and
-- completes every new event, by the same rules and with the same errors.
CREATE FUNCTION outbox.admit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER -- for the functions it calls
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- A row that is new has this transaction's time. Another one is being restored: it is kept as it was, but for the
    -- limits that no row may break. Only the owner can give created_at, so nobody else can pass for a restore. What
    -- logical replication brings is as it was, too.
    is_new boolean := new.created_at = now() AND current_setting('session_replication_role') <> 'replica';
    traceparent text;
BEGIN
    IF new.topic IS NULL
        OR octet_length(new.topic) NOT BETWEEN 1 AND 255
        OR (new.payload IS NULL) = (new.payload_bytes IS NULL)
        OR octet_length(new.event_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.correlation_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.exchange) NOT BETWEEN 1 AND 255
        OR octet_length(new.content_type) NOT BETWEEN 1 AND 255
        OR new.available_at = 'infinity'
    THEN
        PERFORM outbox.refuse(new);
    END IF;
    IF new.headers IS NOT NULL THEN
        PERFORM outbox.check_headers(new.headers);
    END IF;
    IF new.payload_bytes IS NOT NULL AND new.content_type IS NULL THEN
        new.content_type := 'application/octet-stream';
    END IF;

    IF is_new THEN
        PERFORM outbox.check_payload_size(outbox.event_bytes(new.payload, new.payload_bytes, NULL));
        IF new.correlation_id IS NULL THEN
            new.correlation_id := nullif(current_setting('outbox.correlation_id', true), '');
            IF octet_length(new.correlation_id) > 255 THEN
                RAISE EXCEPTION 'correlation_id is % bytes long, the limit is 255', octet_length(new.correlation_id)
                    USING ERRCODE = 'string_data_right_truncation',
                          DETAIL = 'It was taken from the setting outbox.correlation_id.',
                          HINT = 'Shorten the setting, or give correlation_id.';
            END IF;
        END IF;
        traceparent := nullif(current_setting('outbox.traceparent', true), '');
        IF traceparent IS NOT NULL AND (new.headers ? 'traceparent') IS NOT TRUE THEN
            new.headers := coalesce(new.headers, '{}') || jsonb_build_object('traceparent', traceparent);
            PERFORM outbox.check_headers(new.headers);
        END IF;
        IF new.available_at <= now() THEN
            new.available_at := NULL;
        END IF;
    END IF;
    RETURN new;
END
$$;
