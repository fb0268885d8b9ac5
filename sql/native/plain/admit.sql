-- outbox.admit() without the extension, which has it in Rust (outbox_ext/src/admit.rs): the trigger that checks and
-- completes every new event, by the same rules and with the same errors.
CREATE OR REPLACE FUNCTION outbox.admit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER -- for the functions it calls
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- A row that is new has this transaction's time. Any other row is being restored: it is kept as it was, but for the
    -- limits that no row may break. Only the owner can give created_at, so nobody else can pass for a restore. Rows that
    -- logical replication brings are kept as they were, too.
    is_new boolean;
    traceparent text;
    payload_size bigint;
BEGIN
    -- Nothing of the row is touched before: a type of somebody else's may have a cast to text, which would run with the owner's rights.
    IF tg_relid <> 'outbox.events'::regclass AND NOT EXISTS (
        SELECT FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner WHERE c.oid = tg_relid AND r.rolname = current_user
    ) THEN
        RAISE EXCEPTION 'permission denied for function outbox.admit()'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = format('The table %s does not belong to %s, with whose rights the function runs.',
                                  tg_relid::regclass, quote_ident(current_user)),
                  HINT = 'Give the table to that role.';
    END IF;
    is_new := new.created_at = now() AND current_setting('session_replication_role') <> 'replica';
    IF new.topic IS NULL
        OR octet_length(new.topic) NOT BETWEEN 1 AND 255
        OR (json_typeof(new.payload) IS NULL) = (new.payload_bytes IS NULL)
        OR octet_length(new.event_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_type) NOT BETWEEN 1 AND 255
        OR octet_length(new.aggregate_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.correlation_id) NOT BETWEEN 1 AND 255
        OR octet_length(new.exchange) NOT BETWEEN 1 AND 255
        OR octet_length(new.content_type) NOT BETWEEN 1 AND 255
        OR new.available_at = 'infinity'
    THEN
        PERFORM outbox.refuse(new.topic, new.event_type, new.aggregate_type, new.aggregate_id, new.correlation_id,
                              new.exchange, new.content_type, num_nonnulls(new.payload, new.payload_bytes));
    END IF;
    -- In another encoding a text may be longer as it is sent.
    IF getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') THEN
        IF greatest(outbox.utf8_bytes(new.topic), outbox.utf8_bytes(new.event_type), outbox.utf8_bytes(new.aggregate_type),
                    outbox.utf8_bytes(new.aggregate_id), outbox.utf8_bytes(new.correlation_id),
                    outbox.utf8_bytes(new.exchange), outbox.utf8_bytes(new.content_type)) > 255
        THEN
            PERFORM outbox.refuse(new.topic, new.event_type, new.aggregate_type, new.aggregate_id, new.correlation_id,
                                  new.exchange, new.content_type, 1);
        END IF;
    END IF;
    payload_size := coalesce(octet_length(new.payload_bytes), outbox.utf8_bytes(new.payload::text));
    IF is_new THEN
        PERFORM outbox.check_payload_size(payload_size);
    ELSIF payload_size > 134217728 THEN
        RAISE EXCEPTION 'payload is more than 134217728 bytes, the limit is 134217728'
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'No RabbitMQ takes a larger message by default.',
                  HINT = 'Leave this event out.';
    END IF;
    IF new.headers IS NOT NULL THEN
        PERFORM outbox.check_headers(new.headers);
    END IF;
    BEGIN
        -- Converts all at once, which is quicker. The blank between two texts keeps the second from completing half a
        -- character at the end of the first.
        PERFORM convert_to(concat_ws(' ', new.topic, new.event_type, new.aggregate_type, new.aggregate_id,
            new.correlation_id, new.exchange, new.content_type, new.headers, new.payload), 'UTF8');
    EXCEPTION WHEN character_not_in_repertoire THEN
        PERFORM outbox.check_utf8(given.argument, given.value)
        FROM (VALUES
            ('topic', new.topic),
            ('payload', new.payload::text),
            ('event_type', new.event_type),
            ('aggregate_type', new.aggregate_type),
            ('aggregate_id', new.aggregate_id),
            ('headers', new.headers::text),
            ('correlation_id', new.correlation_id),
            ('exchange', new.exchange),
            ('content_type', new.content_type)
        ) AS given (argument, value);
    END;
    IF new.payload_bytes IS NOT NULL AND new.content_type IS NULL THEN
        new.content_type := 'application/octet-stream';
    END IF;

    IF is_new THEN
        IF current_setting('outbox.traceparent', true) <> '' AND (new.headers::jsonb ? 'traceparent') IS NOT TRUE THEN
            traceparent := outbox.context_traceparent();
            new.headers := coalesce(new.headers::jsonb, '{}') || jsonb_build_object('traceparent', traceparent);
            PERFORM outbox.check_headers(new.headers);
        END IF;
        IF current_setting('outbox.correlation_id', true) <> '' AND new.correlation_id IS NULL THEN
            new.correlation_id := outbox.context_correlation_id();
        END IF;
        IF new.headers IS NOT NULL OR new.event_type = 'amqp-1.0' OR new.correlation_id LIKE 'urn:uuid:%' THEN
            PERFORM outbox.check_reserved(new.headers, new.event_type, new.correlation_id);
        END IF;
        -- What was checked is what is kept: of a name that is there twice, the last.
        new.headers := new.headers::jsonb;
        IF octet_length(new.headers::text) > 16384 THEN -- at most four times that in UTF-8
            PERFORM outbox.check_headers(new.headers); -- which may be longer than what was given: 1e-9 is, and so are blanks
        END IF;
        IF new.available_at <= now() THEN
            new.available_at := NULL;
        END IF;
    END IF;
    RETURN new;
END
$$;
