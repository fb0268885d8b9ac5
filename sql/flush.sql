-- Sees to it that the log is on disk up to a position, and with it every commit that a reader of the table had seen by then.
--
-- A commit under synchronous_commit = off can be seen before it is on disk, and is gone after a crash: an event of it must not be
-- published yet. Usually the log is on disk long since. Otherwise a commit of our own, which waits for the disk and for no
-- standby, takes it there; the message in it only makes it a commit that writes something.
CREATE FUNCTION outbox.flush(up_to pg_lsn) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_current_wal_flush_lsn() < up_to THEN
        PERFORM set_config('synchronous_commit', 'local', true);
        PERFORM pg_logical_emit_message(true, 'outbox.flush', '');
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.flush(pg_lsn) IS 'Relay: has the log written to disk up to this position when its transaction commits.';
