-- What the relay's role needs in this schema. To read the write-ahead log it needs REPLICATION besides, which is an
-- attribute of the role and only a superuser's to give.
CREATE FUNCTION outbox.grant_relay(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.pending(bigint, integer, bigint, text[], text[], bigint, boolean, boolean),
        outbox.due(integer, bigint, timestamptz, bigint, boolean, boolean),
        outbox.next_due(),
        outbox.flush(pg_lsn),
        outbox.holding(integer),
        outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean),
        outbox.ensure_publication(text) TO %s', role);
    IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = role AND (r.rolreplication OR r.rolsuper)) THEN
        RAISE NOTICE '% also needs the attribute REPLICATION', role
            USING HINT = format('ALTER ROLE %s REPLICATION;', role);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.grant_relay(regrole) IS 'Lets a role run the relay; it also needs REPLICATION.';
