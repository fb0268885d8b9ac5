-- Makes the relay deliver all events that fit again, oldest first, and returns how many. At least one filter besides status must be
-- given, so that a forgotten argument does not send the history again.
--
--     SELECT outbox.replay_many(topic => 'orders.created', error_like => '%NO_ROUTE%');
--     SELECT outbox.replay_many(created_from => now() - interval '1 hour', status => 'SENT', max_events => 1000);
--
-- Not an overload of outbox.replay(id): PostgreSQL would take replay('0190...') for the one with a text argument.
CREATE OR REPLACE FUNCTION outbox.replay_many(
    topic          text          DEFAULT NULL,
    aggregate_type text          DEFAULT NULL,
    aggregate_id   text          DEFAULT NULL,
    created_from   timestamptz   DEFAULT NULL, -- inclusive
    created_to     timestamptz   DEFAULT NULL, -- exclusive
    error_like     text          DEFAULT NULL, -- a LIKE pattern
    status         outbox.status DEFAULT 'FAILED',
    max_events     bigint        DEFAULT NULL,
    topic_like     text          DEFAULT NULL, -- a LIKE pattern
    correlation_id text          DEFAULT NULL,
    ids            uuid[]        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan -- one plan for all calls would leave no index to any of the filters
AS $$
DECLARE
    replayed bigint;
BEGIN
    IF has_function_privilege('public', 'outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[])'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[])');
    END IF;
    IF num_nonnulls(topic, aggregate_type, aggregate_id, created_from, created_to, error_like, topic_like, correlation_id, ids) = 0 THEN
        RAISE EXCEPTION 'replay_many needs a filter'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give topic, topic_like, aggregate_type, aggregate_id, correlation_id, created_from, created_to, error_like or ids. '
                         'For all events, created_to => now().';
    END IF;
    IF replay_many.status IS NULL OR replay_many.status = 'PENDING' THEN
        RAISE EXCEPTION 'status must be FAILED or SENT'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A PENDING event is to be delivered already.';
    END IF;
    IF max_events < 0 THEN
        RAISE EXCEPTION 'max_events cannot be negative, and is %', max_events
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for all events that fit.';
    END IF;

    WITH chosen AS MATERIALIZED (
        SELECT e.id
        FROM outbox.events AS e
        WHERE e.status = replay_many.status
          AND (replay_many.topic IS NULL OR e.topic = replay_many.topic)
          AND (replay_many.aggregate_type IS NULL OR e.aggregate_type = replay_many.aggregate_type)
          AND (replay_many.aggregate_id IS NULL OR e.aggregate_id = replay_many.aggregate_id)
          AND (replay_many.created_from IS NULL OR e.created_at >= replay_many.created_from)
          AND (replay_many.created_to IS NULL OR e.created_at < replay_many.created_to)
          AND (replay_many.error_like IS NULL OR e.last_error LIKE replay_many.error_like)
          AND (replay_many.topic_like IS NULL OR e.topic LIKE replay_many.topic_like)
          AND (replay_many.correlation_id IS NULL OR e.correlation_id = replay_many.correlation_id)
          AND (replay_many.ids IS NULL OR e.id = ANY (replay_many.ids))
        ORDER BY e.seq
        LIMIT replay_many.max_events
        FOR NO KEY UPDATE
    )
    UPDATE outbox.events AS e SET status = 'PENDING' FROM chosen WHERE e.id = chosen.id;
    GET DIAGNOSTICS replayed = ROW_COUNT;
    IF replayed > 0 THEN
        PERFORM outbox.note_action('replay', jsonb_build_object(
            'topic', topic, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'created_from', created_from,
            'created_to', created_to, 'error_like', error_like, 'status', replay_many.status, 'max_events', max_events,
            'topic_like', topic_like, 'correlation_id', correlation_id,
            'ids', CASE WHEN cardinality(ids) <= 100 THEN to_jsonb(ids) END -- more would swell the log of actions
        ), replayed);
    END IF;
    RETURN replayed;
END
$$;
COMMENT ON FUNCTION outbox.replay_many(text, text, text, timestamptz, timestamptz, text, outbox.status, bigint, text, text, uuid[]) IS
    'Makes the relay deliver all finished events that fit again; returns how many.';
