-- Grants what monitoring needs: outbox.health(), the views, and events without their payloads and headers. The role can change nothing.
CREATE OR REPLACE FUNCTION outbox.grant_monitor(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.begin_grant(role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.health(text, interval, interval, bigint, bigint),
        outbox.health_with_codes(text, interval, interval, bigint, bigint),
        outbox.failures(integer),
        outbox.sequence_state(),
        outbox.open_to_public(text) TO %s', role);
    EXECUTE format('GRANT SELECT ON outbox.failed, outbox.backlog, outbox.audit TO %s', role);
    EXECUTE format('GRANT SELECT (id, seq, created_at, status, attempts, replays, holds_key, topic, exchange, event_type, aggregate_type,
        aggregate_id, content_type, correlation_id, available_at, last_error, first_attempted_at, last_attempted_at, processed_at)
        ON outbox.events TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_monitor(regrole) IS 'Lets a role see how events fare, without payloads and headers.';
