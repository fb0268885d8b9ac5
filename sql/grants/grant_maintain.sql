-- Grants what retention and outbox-relay purge need: to delete what is finished, whatever its age. Nobody else but the owner may.
CREATE OR REPLACE FUNCTION outbox.grant_maintain(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.begin_grant(role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.delete_finished(timestamptz, timestamptz, bigint, integer),
        outbox.delete_pages(timestamptz, timestamptz, bigint, integer),
        outbox.delete_events(uuid[], outbox.status),
        outbox.delete_one_by_one(uuid[], outbox.status) TO %s', role);
    EXECUTE format('GRANT EXECUTE ON PROCEDURE outbox.maintain(interval, interval) TO %s', role);
END
$$;
COMMENT ON FUNCTION outbox.grant_maintain(regrole) IS 'Lets a role delete finished events, as retention does.';
