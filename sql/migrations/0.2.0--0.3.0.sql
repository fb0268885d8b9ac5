-- What changes in the tables from 0.2.0 to 0.3.0, and what is dropped. It is frozen when 0.3.0 is released.
--
-- JSON becomes what was written, and is no longer taken apart. The table is written anew for that, during which nobody emits: purge what
-- is finished before, if there is much of it (docs/run/upgrade.md).
DO $$
DECLARE
    dropped text;
    successor text;
BEGIN
    IF outbox.version() NOT IN ('0.1.0', '0.2.0') THEN
        RETURN;
    END IF;
    DROP TRIGGER envelope_is_final ON outbox.events; -- it names the columns
    BEGIN
        ALTER TABLE outbox.events ALTER payload TYPE json, ALTER headers TYPE json;
    EXCEPTION WHEN feature_not_supported OR undefined_object OR undefined_function OR datatype_mismatch THEN
        RAISE EXCEPTION 'something depends on the columns payload and headers of outbox.events, which become json: %', sqlerrm
            USING ERRCODE = sqlstate,
                  DETAIL = 'There are: ' || coalesce((
                      SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
                      FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                      WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = 'outbox.events'::regclass AND a.attname IN ('payload', 'headers')
                  ), 'what the message names.'),
                  HINT = 'Drop what the upgrade stopped at, and make it again after the upgrade, with payload::jsonb where it needs that.';
    END;
    COMMENT ON COLUMN outbox.events.payload IS 'Body as JSON, which is sent as it was written; or payload_bytes is set.';
    COMMENT ON COLUMN outbox.events.attempts IS 'Publishes that the broker answered, except while it took nothing; a replay sets it back to 0.';
    COMMENT ON COLUMN outbox.events.available_at IS 'The event is not sent before this time; null: at once. After a failed attempt the relay sets it to the time of the next one.';
    COMMENT ON COLUMN outbox.events.last_error IS 'What the broker said to the last attempt, if that failed; a replay keeps it.';
    COMMENT ON COLUMN outbox.events.first_attempted_at IS 'Time of the first failed attempt that counted, from which retry_for is measured; a replay sets it back to null.';
    COMMENT ON TABLE outbox.events IS 'Messages for RabbitMQ or Kafka, each committed with the business rows it speaks of.';
    COMMENT ON COLUMN outbox.events.id IS 'UUID version 7, the same on every delivery: the AMQP message_id, or the header id of a Kafka record.';
    COMMENT ON COLUMN outbox.events.created_at IS 'Start of the transaction that emitted; the AMQP timestamp, or the header time of a Kafka record.';
    COMMENT ON COLUMN outbox.events.topic IS 'Routing key in RabbitMQ; the topic in Kafka, unless the relay makes it of other columns.';
    COMMENT ON COLUMN outbox.events.exchange IS 'Exchange in RabbitMQ, topic in Kafka; null: the relay''s default.';
    COMMENT ON COLUMN outbox.events.event_type IS 'AMQP type; header type of a Kafka record.';
    COMMENT ON COLUMN outbox.events.aggregate_id IS 'Second half of the ordering key, whose events are delivered in commit order; the key of a Kafka record.';
    COMMENT ON COLUMN outbox.events.content_type IS 'AMQP content_type, or header content-type of a Kafka record; null: application/json.';
    COMMENT ON COLUMN outbox.events.headers IS 'Headers of the message, a JSON object.';
    COMMENT ON COLUMN outbox.events.correlation_id IS 'AMQP correlation_id, or header of a Kafka record; left out: the setting outbox.correlation_id.';
    COMMENT ON TYPE outbox.status IS 'PENDING: to be delivered. SENT: confirmed by the broker. FAILED: given up, see last_error.';

    CREATE TABLE outbox.in_doubt (
        publisher text        NOT NULL,
        id        uuid        NOT NULL,
        replays   integer     NOT NULL,
        since     timestamptz NOT NULL,
        delivered boolean     NOT NULL,
        kept_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (publisher, id, replays)
    );
    COMMENT ON TABLE outbox.in_doubt IS 'Relay: events that the broker may have and whose verdicts are late.';
    COMMENT ON COLUMN outbox.in_doubt.publisher IS 'Name under which the relay publishes.';
    COMMENT ON COLUMN outbox.in_doubt.replays IS 'How often the event had been replayed; -1: the row is the floor of a session, and no event.';
    COMMENT ON COLUMN outbox.in_doubt.since IS 'When the event was first published; the floor: the last verdict before the session.';
    COMMENT ON COLUMN outbox.in_doubt.delivered IS 'Whether the broker has confirmed the event, so that only its verdict is missing.';

    -- An earlier relay that calls one of these begins anew, and waits for the relay of this version. Its successor has the same grants.
    FOR dropped, successor IN VALUES
        ('outbox.event_bytes(jsonb, bytea, jsonb)', 'outbox.event_bytes(json, bytea, json)'),
        ('outbox.check_headers(jsonb)', 'outbox.check_headers(json)'), -- the plain SQL's, as the next
        ('outbox.printed_bytes(jsonb)', NULL),
        ('outbox.ring()', NULL), -- everybody may call wake_relay()
        ('outbox.owed(bigint, integer, text[], text[], bigint, boolean)',
         'outbox.pending_page(bigint, integer, text[], text[], bigint, boolean)'),
        ('outbox.pending(bigint, integer, bigint, text[], text[], bigint, boolean, boolean)',
         'outbox.pending_page_by_bytes(bigint, integer, bigint, text[], text[], bigint, boolean, boolean)'),
        ('outbox.due(integer, bigint, timestamptz, bigint, bigint, boolean, boolean)',
         'outbox.due_page(integer, bigint, timestamptz, bigint, bigint, boolean, boolean)'),
        ('outbox.holding(integer)', 'outbox.key_holders(integer)'),
        -- Arguments have other names.
        ('outbox.cut_page(refcursor, bigint, boolean)', 'outbox.cut_page(refcursor, bigint, boolean)'),
        ('outbox.unreadable(oid, tid)', 'outbox.unreadable(oid, tid)'),
        ('outbox.row_without_contents(oid, tid, text)', 'outbox.row_without_contents(oid, tid, text)')
    LOOP
        IF to_regprocedure(dropped) IS NOT NULL THEN
            PERFORM set_config('outbox_upgrade.granted', (current_setting('outbox_upgrade.granted')::text[] || ARRAY(
                SELECT format('FUNCTION %s TO %s', successor, acl.grantee::regrole)
                FROM pg_proc AS p CROSS JOIN aclexplode(p.proacl) AS acl
                WHERE p.oid = to_regprocedure(dropped) AND acl.grantee NOT IN (0, p.proowner) AND successor IS NOT NULL
            ))::text, true); -- for grant_again.sql
            PERFORM set_config('outbox_upgrade.made_again',
                array_append(current_setting('outbox_upgrade.made_again')::text[], successor)::text, true);
            EXECUTE 'DROP FUNCTION ' || dropped;
        END IF;
    END LOOP;
END
$$;
