-- Grants what an operator's role needs: to look at everything, to replay and to release.
CREATE OR REPLACE FUNCTION outbox.grant_operate(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.begin_grant(role);
    PERFORM outbox.grant_monitor(role);
    EXECUTE format('GRANT SELECT ON outbox.events, outbox.failed, outbox.backlog TO %s', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.replay(uuid),
        outbox.release(uuid),
        outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[]) TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_operate(regrole) IS 'Lets a role read events and replay them.';
