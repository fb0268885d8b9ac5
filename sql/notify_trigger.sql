-- Applications can follow an event's status: LISTEN outbox_status; the payload of each notification is '<id> <status>'.
--
-- Off by default, for NOTIFY takes a lock of the whole cluster at commit. It is the session that writes the status whose
-- setting counts: ALTER ROLE relay SET outbox.notify_status = on. The trigger costs nothing more than its WHEN clause
-- while the setting is off: an AFTER trigger is queued only when that is true.
CREATE FUNCTION outbox.notify_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('outbox_status', new.id || ' ' || new.status);
    RETURN NULL;
END
$$;

CREATE TRIGGER notify_status
    AFTER UPDATE OF status ON outbox.events
    FOR EACH ROW
    WHEN (lower(current_setting('outbox.notify_status', true)) IN ('on', 'true', 'yes', '1')
          AND new.status <> old.status)
    EXECUTE FUNCTION outbox.notify_status();
