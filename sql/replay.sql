-- Has one finished event delivered again, with the same id. True if there is such an event, false if it is unknown or
-- PENDING anyway.
CREATE FUNCTION outbox.replay(id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE outbox.events AS e SET status = 'PENDING'
    WHERE e.id = replay.id AND e.status IN ('FAILED', 'SENT');
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION outbox.replay(uuid) IS 'Has a FAILED or SENT event delivered again, with the same id.';
