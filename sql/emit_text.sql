-- emit() for a payload that comes as a string: what drivers send for a plain parameter, and what psql sends for a
-- literal. Without this function PostgreSQL could not choose between jsonb and bytea: "function outbox.emit(unknown, unknown)
-- is not unique". The function is inlined into the call, so it costs nothing.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        text,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE sql VOLATILE
RETURN outbox.emit(topic, payload::jsonb, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange,
                   available_at);
