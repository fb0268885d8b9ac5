-- Grants what an application's role needs: emit(), and INSERT of an envelope for applications that cannot call a function. The
-- role can read nothing and forge no status. Without SELECT an INSERT cannot say RETURNING id: let the application choose the id.
CREATE OR REPLACE FUNCTION outbox.grant_emit(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.begin_grant(role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz),
        outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz),
        outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text) TO %s', role);
    EXECUTE format('GRANT INSERT (id, topic, exchange, event_type, aggregate_type, aggregate_id, payload, payload_bytes,
        content_type, headers, correlation_id, available_at) ON outbox.events TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_emit(regrole) IS 'Lets a role emit events, and nothing else.';
