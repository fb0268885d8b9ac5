-- outbox.emit() without the extension, which has it in Rust (outbox_ext/src/emit.rs). The INSERT's trigger checks the
-- event.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        json,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    event_id uuid;
BEGIN
    IF has_function_privilege('public', 'outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz)');
    END IF;
    INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange,
                               available_at)
    VALUES ($1, $2, $3, $4, $5, $6::json, $7, $8, $9)
    RETURNING id INTO event_id;
    IF event_id IS NULL THEN
        RAISE EXCEPTION 'the event was not inserted'
            USING ERRCODE = 'triggered_action_exception',
                  DETAIL = 'A trigger on outbox.events returned null.',
                  HINT = 'Drop that trigger: an event that is not to be sent is not to be emitted.';
    END IF;
    RETURN event_id;
END
$$;

-- For what has a jsonb already: it is printed.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        jsonb,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE sql VOLATILE
RETURN outbox.emit(topic, payload::json, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at);

-- A body of bytes. The arguments have the same order, so that PostgreSQL can tell the functions apart by the payload
-- alone when literals have no type yet; content_type comes after them.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        bytea,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL,
    content_type   text        DEFAULT 'application/octet-stream'
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    event_id uuid;
BEGIN
    IF has_function_privilege('public', 'outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text)');
    END IF;
    INSERT INTO outbox.events (topic, payload_bytes, event_type, aggregate_type, aggregate_id, headers, correlation_id,
                               exchange, available_at, content_type)
    VALUES ($1, $2, $3, $4, $5, $6::json, $7, $8, $9, $10)
    RETURNING id INTO event_id;
    IF event_id IS NULL THEN
        RAISE EXCEPTION 'the event was not inserted'
            USING ERRCODE = 'triggered_action_exception',
                  DETAIL = 'A trigger on outbox.events returned null.',
                  HINT = 'Drop that trigger: an event that is not to be sent is not to be emitted.';
    END IF;
    RETURN event_id;
END
$$;
