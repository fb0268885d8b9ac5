-- Lets the events behind a FAILED one go on, without it. (To deliver it after all, replay it: that lets them go on, too,
-- behind it.) True if the event held its key.
CREATE FUNCTION outbox.release(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE outbox.events AS e SET holds_key = false
    WHERE e.id = release.id AND e.status = 'FAILED' AND e.holds_key;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION outbox.release(uuid) IS 'Lets the events of a key go on that a FAILED event holds back.';
