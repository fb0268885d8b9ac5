-- emit() for a payload that comes as a string: what drivers send for a plain parameter, and what psql sends for a literal. Without this
-- function PostgreSQL could not choose between json, jsonb and bytea: "function outbox.emit(unknown, unknown) is not unique".
--
-- The string is JSON; with a content_type it is any text, and the body has its bytes in UTF-8. (It must not be left to emit() of a bytea:
-- PostgreSQL would read '{"a": "b\\c"}' in bytea's own notation, and the body would lose a backslash.)
--
-- The function is inlined into the call, so it costs nothing, unless an argument is volatile or dear.
CREATE OR REPLACE FUNCTION outbox.emit(
    topic          text,
    payload        text,
    event_type     text        DEFAULT NULL,
    aggregate_type text        DEFAULT NULL,
    aggregate_id   text        DEFAULT NULL,
    headers        jsonb       DEFAULT NULL,
    correlation_id text        DEFAULT NULL,
    exchange       text        DEFAULT NULL,
    available_at   timestamptz DEFAULT NULL,
    content_type   text        DEFAULT NULL
) RETURNS uuid
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN content_type IS NULL THEN
        outbox.emit(topic, payload::json, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at)
    ELSE
        outbox.emit(topic, pg_catalog.convert_to(payload, 'UTF8'), event_type, aggregate_type, aggregate_id, headers, correlation_id,
                    exchange, available_at, content_type)
END;
