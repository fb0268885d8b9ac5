-- Grants what the relay's role needs in this schema. The role also needs REPLICATION, to read the write-ahead log: an attribute
-- that only a superuser or a cloud's admin can give. On Amazon RDS and Aurora no role has that attribute; membership in
-- rds_replication takes its place.
CREATE OR REPLACE FUNCTION outbox.grant_relay(role regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.begin_grant(role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        outbox.pending_page(bigint, integer, text[], text[], bigint, boolean),
        outbox.pending_page_by_bytes(bigint, integer, bigint, text[], text[], bigint, boolean, boolean),
        outbox.due_page(integer, bigint, timestamptz, bigint, bigint, boolean, boolean),
        outbox.next_due(),
        outbox.flush(pg_lsn),
        outbox.health(text, interval, interval, bigint, bigint),
        outbox.health_with_codes(text, interval, interval, bigint, bigint),
        outbox.key_holders(integer),
        outbox.last_settled(),
        outbox.keep_in_doubt(text, uuid[], integer[], bigint[], boolean[], bigint),
        outbox.events_in_doubt(text, integer),
        outbox.settle(uuid[], outbox.status[], text[], integer[], boolean[], boolean),
        outbox.ensure_publication(text),
        outbox.ensure_sequence(),
        outbox.sequence_state(),
        outbox.open_to_public(text) TO %s', role);
    IF NOT EXISTS (
        SELECT FROM pg_roles AS r
        WHERE (r.oid = role AND (r.rolreplication OR r.rolsuper))
           OR (r.rolname = 'rds_replication' AND pg_has_role(role, r.oid, 'MEMBER'))
    ) THEN
        RAISE NOTICE '% also needs the right REPLICATION', role
            USING HINT = format(CASE WHEN to_regrole('rds_replication') IS NULL
                THEN 'As a superuser or the cloud''s admin: ALTER ROLE %s REPLICATION;'
                ELSE 'GRANT rds_replication TO %s;' END, role);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.grant_relay(regrole) IS 'Lets a role run the relay; it also needs REPLICATION.';
