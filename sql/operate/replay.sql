-- Makes the relay deliver one finished event again, with the same id. Returns true if there is such an event, false if it is
-- unknown or still PENDING.
CREATE OR REPLACE FUNCTION outbox.replay(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.replay(uuid)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.replay(uuid)');
    END IF;
    UPDATE outbox.events AS e SET status = 'PENDING'
    WHERE e.id = replay.id AND e.status IN ('FAILED', 'SENT');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox.note_action('replay', jsonb_build_object('id', replay.id), 1);
    RETURN true;
END
$$;
COMMENT ON FUNCTION outbox.replay(uuid) IS 'Makes the relay deliver a FAILED or SENT event again, with the same id.';
