-- Everybody is granted only what cannot do harm: the schema's name, its version, making a uuid (the default of a
-- column), waking the relay (for a role that may UPDATE status), and emit() of a text, which only calls emit() of a json
-- or of a bytea with the caller's rights.
--
-- One call each grants what an application, the relay, an operator and monitoring need: grant_emit.sql, grant_relay.sql,
-- grant_operate.sql, grant_monitor.sql.
--
-- What else everybody may do is taken back here, at the installation and at each upgrade, and by each grant_*() (rights.sql): the default
-- privileges of the owner, or a restore, may have given it.
REVOKE CREATE ON SCHEMA outbox FROM PUBLIC;
GRANT USAGE ON SCHEMA outbox TO PUBLIC;

-- What somebody else has put into the schema is left to them.
DO $$
DECLARE
    ours text;
BEGIN
    FOR ours IN
        SELECT concat(CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' END, c.oid::regclass)
        FROM pg_class AS c
        WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND pg_has_role(c.relowner, 'USAGE')
        UNION ALL
        SELECT format('ROUTINE %s', p.oid::regprocedure)
        FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', ours);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION
    outbox.version(),
    outbox.uuid_v7(),
    outbox.wake_relay(),
    outbox.emit(text, text, text, text, text, jsonb, text, text, timestamptz, text) TO PUBLIC;

COMMENT ON FUNCTION outbox.emit(text, json, text, text, text, jsonb, text, text, timestamptz) IS
    'Emits an event with this transaction: a JSON body, as it is written, to a topic. Returns its id.';
COMMENT ON FUNCTION outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz) IS
    'Emits an event with this transaction: a JSON body, as PostgreSQL prints it, to a topic. Returns its id.';
COMMENT ON FUNCTION outbox.emit(text, text, text, text, text, jsonb, text, text, timestamptz, text) IS
    'Emits an event with this transaction: a JSON body, given as text, or any text with a content_type, to a topic. Returns its id.';
COMMENT ON FUNCTION outbox.emit(text, bytea, text, text, text, jsonb, text, text, timestamptz, text) IS
    'Emits an event with this transaction: a body of bytes (Protobuf, Avro) to a topic. Returns its id.';
COMMENT ON FUNCTION outbox.event_bytes(json, bytea, json) IS 'Size of an event''s body and headers, uncompressed.';
COMMENT ON FUNCTION outbox.settle_sent(uuid[]) IS
    'Internal to settle(): writes the verdict SENT where that is simple; returns the other events.';
COMMENT ON FUNCTION outbox.uuid_v7() IS 'A UUID version 7 (RFC 9562): sorts by the time it was made.';
