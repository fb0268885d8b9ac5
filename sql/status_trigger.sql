-- The legal moves of an event's status:
--
--     PENDING → SENT, FAILED     a verdict
--     PENDING → PENDING          an attempt that will be repeated (attempts + 1)
--     FAILED, SENT → PENDING     a replay
--
-- Everything else is refused. Counters and times are stamped here and not trusted, so that an operator's plain
-- UPDATE … SET status = 'PENDING' does the whole of it.
CREATE FUNCTION outbox.move_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    IF old.status = 'PENDING' AND (new.status <> 'PENDING' OR new.attempts = old.attempts + 1) THEN
        new.attempts := old.attempts + 1;
        new.last_attempted_at := now();
        new.processed_at := CASE WHEN new.status <> 'PENDING' THEN now() END;
        new.last_error := CASE WHEN new.status <> 'SENT' THEN new.last_error END;
        RETURN new;
    END IF;

    IF old.status <> 'PENDING' AND new.status = 'PENDING' THEN
        new.attempts := 0;
        new.last_error := old.last_error;
        new.last_attempted_at := old.last_attempted_at;
        new.processed_at := NULL;
        PERFORM outbox.ring();
        RETURN new;
    END IF;

    changed := CASE
        WHEN new.status IS DISTINCT FROM old.status THEN 'status'
        WHEN new.attempts IS DISTINCT FROM old.attempts THEN 'attempts'
        WHEN new.last_error IS DISTINCT FROM old.last_error THEN 'last_error'
        WHEN new.last_attempted_at IS DISTINCT FROM old.last_attempted_at THEN 'last_attempted_at'
        WHEN new.processed_at IS DISTINCT FROM old.processed_at THEN 'processed_at'
    END;
    IF changed IS NULL THEN
        RETURN new;
    END IF;

    RAISE EXCEPTION USING
        ERRCODE = 'check_violation',
        MESSAGE = CASE changed
            WHEN 'status' THEN format('status of event %s cannot go from %s to %s', old.id, old.status, new.status)
            ELSE format('%s of event %s cannot be changed', changed, old.id)
        END,
        DETAIL = 'Legal moves are PENDING to SENT or FAILED, and FAILED or SENT back to PENDING.',
        HINT = CASE changed
            WHEN 'status' THEN 'Set status to PENDING, or call outbox.replay(id), to have the event delivered again.'
            ELSE 'Counters, times and errors are written together with status.'
        END,
        SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
END
$$;

-- A write-back by outbox.settle() is stamped in full already, with this transaction's time. It is recognised here, so
-- that it does not pay the function call. IS NOT TRUE: what is unknown is looked at.
CREATE TRIGGER status_moves
    BEFORE UPDATE OF status, attempts, last_error, last_attempted_at, processed_at ON outbox.events
    FOR EACH ROW
    WHEN ((
        old.status = 'PENDING'
        AND new.attempts = old.attempts + 1
        AND new.last_attempted_at = now()
        AND CASE new.status
                WHEN 'PENDING' THEN new.processed_at IS NULL
                WHEN 'FAILED' THEN new.processed_at = now()
                ELSE new.processed_at = now() AND new.last_error IS NULL
            END
    ) IS NOT TRUE)
    EXECUTE FUNCTION outbox.move_status();
