-- Makes sure that the WAL is on disk up to a position, and with it every commit that a reader of the table had seen by then.
--
-- A commit under synchronous_commit = off can be seen before it is on disk, and a crash would lose it: its events must not be
-- published yet. Usually the WAL has long been on disk. Otherwise the commit of this function's transaction takes it there: that
-- commit waits for the disk and for no standby. The message only makes it a commit that writes something.
CREATE OR REPLACE FUNCTION outbox.flush(up_to pg_lsn) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF has_function_privilege('public', 'outbox.flush(pg_lsn)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.flush(pg_lsn)');
    END IF;
    IF pg_current_wal_flush_lsn() < up_to THEN
        PERFORM set_config('synchronous_commit', 'local', true);
        PERFORM pg_logical_emit_message(true, 'outbox.flush', '');
    END IF;
END
$$;
COMMENT ON FUNCTION outbox.flush(pg_lsn) IS 'Relay: makes its transaction''s commit write the WAL to disk up to this position.';
