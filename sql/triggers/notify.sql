-- Applications can follow an event's status: LISTEN outbox_status; the payload of each notification is '<id> <status>'.
--
-- Notifications are off by default, because NOTIFY takes a lock of the whole cluster at commit. The session that writes the
-- status decides by its setting: ALTER ROLE relay SET outbox.notify_status = on. While the setting is off, the trigger costs
-- no more than its WHEN clause: an AFTER trigger is queued only when the clause is true.
CREATE OR REPLACE FUNCTION outbox.notify_status() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('outbox_status', new.id || ' ' || new.status);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER notify_status
    AFTER UPDATE OF status ON outbox.events
    FOR EACH ROW
    WHEN (lower(current_setting('outbox.notify_status', true)) IN ('on', 'true', 'yes', '1')
          AND new.status <> old.status)
    EXECUTE FUNCTION outbox.notify_status();
