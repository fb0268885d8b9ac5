-- Wakes the relay by a transactional message in the write-ahead log: the relay then looks for PENDING rows. It reads inserts only, so
-- it would not notice a row that an UPDATE made PENDING.
--
-- One message per transaction is enough, however many rows it replays. A rollback to a savepoint takes back both the message
-- and the note that it was written, outbox.rung_in: the extension's library of each version knows this setting.
CREATE OR REPLACE FUNCTION outbox.wake_relay() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('outbox.rung_in', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        PERFORM pg_logical_emit_message(true, 'outbox', 'replay');
        PERFORM set_config('outbox.rung_in', pg_current_xact_id()::text, true);
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.wake_relay() IS 'Makes the relay look for PENDING events once this transaction has committed.';
