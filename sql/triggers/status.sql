-- The legal moves of an event's status:
--
--     PENDING -> SENT, FAILED    a verdict
--     PENDING -> PENDING         an attempt that will be repeated (attempts + 1), or that does not count and is repeated later
--     FAILED, SENT -> PENDING    a replay
--     FAILED, no longer holding its key (holds_key to false)
--
-- Everything else is refused. The trigger stamps counters and times itself and trusts none that it is given, so that an
-- operator's plain UPDATE ... SET status = 'PENDING' is a whole replay.
CREATE OR REPLACE FUNCTION outbox.move_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    -- A row that logical replication brings was moved and stamped where it comes from, and is kept as it was. None of its
    -- moves is refused: when relays have worked on both sides, a verdict may reach an event that already has one, and a refusal
    -- would stop replication for good. The trigger refuses only what would stop those who read or settle.
    IF current_setting('session_replication_role') = 'replica' THEN
        changed := CASE
            WHEN new.attempts < 0 OR new.attempts = 2147483647 THEN 'attempts' -- settle() adds 1
            WHEN new.available_at = 'infinity' THEN 'available_at'
            WHEN new.holds_key AND new.status = 'SENT' THEN 'holds_key'
        END;
        IF changed IS NOT NULL THEN
            RAISE EXCEPTION '% of event % cannot be %', changed, old.id, to_jsonb(new) ->> changed
                USING ERRCODE = 'check_violation',
                      DETAIL = 'Nobody could settle this event, or those behind it.',
                      HINT = 'Look for who wrote it: a session with session_replication_role = replica, or a publisher.',
                      SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
        END IF;
        IF old.holds_key AND NOT new.holds_key OR old.status <> 'PENDING' AND new.status = 'PENDING' THEN
            PERFORM outbox.wake_relay();
        END IF;
        RETURN new;
    END IF;

    IF old.status = 'PENDING' AND new.status = 'PENDING' AND new.attempts = old.attempts + 1
        OR old.status = 'PENDING' AND new.status <> 'PENDING' AND new.available_at IS NOT DISTINCT FROM old.available_at
    THEN
        new.attempts := old.attempts + 1;
        new.replays := old.replays;
        new.first_attempted_at :=
            CASE WHEN new.status = 'PENDING' THEN coalesce(old.first_attempted_at, now()) ELSE old.first_attempted_at END;
        new.last_attempted_at := now();
        new.processed_at := CASE WHEN new.status <> 'PENDING' THEN now() END;
        new.last_error := CASE WHEN new.status <> 'SENT' THEN new.last_error END;
        new.holds_key := new.status = 'PENDING' AND new.holds_key;
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.wake_relay(); -- the events behind it may go on
        END IF;
        RETURN new;
    END IF;

    -- An attempt that does not count is stamped with this transaction's time, to be repeated later, and changes nothing else.
    -- Whoever may write these columns may record one; settle() may, by its owner's rights.
    IF old.status = 'PENDING' AND new.status = 'PENDING' AND new.attempts = old.attempts
        AND new.last_attempted_at = now() AND new.available_at >= now() AND new.processed_at IS NULL
        AND (new.last_error, new.first_attempted_at, new.replays) IS NOT DISTINCT FROM (old.last_error, old.first_attempted_at, old.replays)
    THEN
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.wake_relay();
        END IF;
        RETURN new;
    END IF;

    IF old.status <> 'PENDING' AND new.status = 'PENDING' AND new.available_at IS NOT DISTINCT FROM old.available_at THEN
        new.attempts := 0;
        new.replays := least(old.replays, 2147483646) + 1;
        new.first_attempted_at := NULL;
        new.last_error := old.last_error;
        new.last_attempted_at := old.last_attempted_at;
        new.processed_at := NULL;
        new.available_at := NULL;
        new.holds_key := false;
        PERFORM outbox.wake_relay();
        RETURN new;
    END IF;

    changed := CASE
        WHEN new.available_at IS DISTINCT FROM old.available_at THEN 'available_at'
        WHEN new.status IS DISTINCT FROM old.status THEN 'status'
        WHEN new.attempts IS DISTINCT FROM old.attempts THEN 'attempts'
        WHEN new.replays IS DISTINCT FROM old.replays THEN 'replays'
        WHEN new.last_error IS DISTINCT FROM old.last_error THEN 'last_error'
        WHEN new.first_attempted_at IS DISTINCT FROM old.first_attempted_at THEN 'first_attempted_at'
        WHEN new.last_attempted_at IS DISTINCT FROM old.last_attempted_at THEN 'last_attempted_at'
        WHEN new.processed_at IS DISTINCT FROM old.processed_at THEN 'processed_at'
        WHEN new.holds_key > old.holds_key OR new.holds_key < old.holds_key AND old.status <> 'FAILED' THEN 'holds_key'
    END;
    IF changed IS NULL THEN
        IF old.holds_key AND NOT new.holds_key THEN
            PERFORM outbox.wake_relay();
        END IF;
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
            WHEN 'holds_key' THEN 'Call outbox.release(id) for a FAILED event that holds its key.'
            WHEN 'available_at' THEN 'Emit a new event.'
            ELSE 'Counters, times and errors are written together with status.'
        END,
        SCHEMA = tg_table_schema, TABLE = tg_table_name, COLUMN = changed, CONSTRAINT = tg_name;
END
$$;

-- A write-back by outbox.settle() is stamped in full already, with this transaction's time. The WHEN clause recognises it, so
-- that it does not pay for the function call. IS NOT TRUE sends an unknown result to the function, too.
CREATE OR REPLACE TRIGGER status_moves
    BEFORE UPDATE OF status, attempts, replays, holds_key, available_at, last_error, first_attempted_at, last_attempted_at,
        processed_at ON outbox.events
    FOR EACH ROW
    WHEN ((
        old.status = 'PENDING'
        AND new.attempts = old.attempts + 1
        AND new.replays = old.replays
        AND new.last_attempted_at = now()
        AND CASE
                WHEN new.status = 'PENDING' AND old.first_attempted_at IS NULL THEN new.first_attempted_at = now()
                ELSE NOT new.first_attempted_at IS DISTINCT FROM old.first_attempted_at
            END
        AND CASE new.status
                WHEN 'PENDING' THEN new.processed_at IS NULL
                WHEN 'FAILED' THEN new.processed_at = now()
                ELSE new.processed_at = now() AND new.last_error IS NULL AND NOT new.holds_key
            END
    ) IS NOT TRUE)
    EXECUTE FUNCTION outbox.move_status();
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER status_moves;

-- A deleted event no longer holds its key, either. PostgreSQL evaluates WHEN before it queues anything, so deleting old history
-- pays next to nothing.
CREATE OR REPLACE FUNCTION outbox.end_hold() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM outbox.wake_relay();
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER deletion_ends_hold
    AFTER DELETE ON outbox.events
    FOR EACH ROW
    WHEN (old.holds_key)
    EXECUTE FUNCTION outbox.end_hold();
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER deletion_ends_hold;
