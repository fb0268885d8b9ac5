-- Lets the events behind a FAILED one go on without it. (To deliver the FAILED event after all, replay it: the others then go
-- on behind it.) Returns true if the event held its key.
CREATE OR REPLACE FUNCTION outbox.release(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.release(uuid)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.release(uuid)');
    END IF;
    UPDATE outbox.events AS e SET holds_key = false
    WHERE e.id = release.id AND e.status = 'FAILED' AND e.holds_key;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox.note_action('release', jsonb_build_object('id', release.id), 1);
    RETURN true;
END
$$;
COMMENT ON FUNCTION outbox.release(uuid) IS 'Lets the events go on that a FAILED event with their key holds back.';
