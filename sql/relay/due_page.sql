-- Returns events with a time of their own once that time has come: by time, then in the order in which they were made, a page
-- at a time. The next page starts after the available_at and seq of the last row; null stands for the beginning. Pages are cut
-- as in pending_page_by_bytes.sql: events that wait for the holder of their key are left out as there, and row_by_row and the settings
-- mean the same.
--
-- While the relay has not read all that is pending, it gives older_than: events of later transactions are left out if they have a
-- key and do not hold it, for others of their key may come before them. 0 leaves out all of those.
CREATE OR REPLACE FUNCTION outbox.due_page(
    max_rows integer, max_bytes bigint, after_at timestamptz, after_seq bigint, older_than bigint DEFAULT NULL,
    respect_holds boolean DEFAULT true, row_by_row boolean DEFAULT false
)
RETURNS SETOF outbox.events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    until timestamptz := clock_timestamp();
    oldest xid := older_than::text::xid; -- the age of 0 is that of no transaction
    rows refcursor;
    page record;
BEGIN
    IF has_function_privilege('public', 'outbox.due_page(integer, bigint, timestamptz, bigint, bigint, boolean, boolean)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.due_page(integer, bigint, timestamptz, bigint, bigint, boolean, boolean)');
    END IF;
    OPEN rows FOR
        SELECT e.tableoid AS row_table, e.ctid AS row_ctid, true AS is_old,
            CASE WHEN NOT row_by_row THEN outbox.event_bytes(e.payload, e.payload_bytes, e.headers) END AS bytes
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at <= until
          AND (e.available_at, e.seq) > (coalesce(due_page.after_at, '-infinity'), coalesce(due_page.after_seq, 0))
          AND (oldest IS NULL OR e.holds_key OR e.aggregate_id IS NULL OR age(e.xmin) > age(oldest))
          AND (e.holds_key OR NOT respect_holds OR NOT EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.available_at, e.seq
        LIMIT due_page.max_rows;
    SELECT * INTO page FROM outbox.cut_page(rows, max_bytes, row_by_row);
    IF page.reason IS NOT NULL THEN
        RETURN NEXT outbox.row_without_contents(page.tables[1], page.ctids[1], page.reason);
        RETURN;
    END IF;

    -- Straight from the table: a row that goes through a variable is unpacked on the way. The statement names the table, not a
    -- function that returns its rows, so that PostgreSQL notices a column that is added.
    RETURN QUERY
        SELECT e.*
        FROM unnest(page.tables, page.ctids) WITH ORDINALITY AS found (row_table, row_ctid, number)
        JOIN outbox.events AS e ON e.ctid = found.row_ctid AND e.tableoid = found.row_table
        ORDER BY found.number;
END
$$;
COMMENT ON FUNCTION outbox.due_page(integer, bigint, timestamptz, bigint, bigint, boolean, boolean) IS 'Relay: events whose available_at has come.';

-- Returns the milliseconds, rounded up, until the next event comes due; null when none waits. Only events in the future
-- count: to miss none, call this function first and outbox.due_page() after it.
CREATE OR REPLACE FUNCTION outbox.next_due() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
    since timestamptz := clock_timestamp();
BEGIN
    IF has_function_privilege('public', 'outbox.next_due()'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.next_due()');
    END IF;
    RETURN (
        SELECT ceil(extract(epoch FROM e.available_at - since) * 1000)
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at > since AND e.available_at < 'infinity'
        ORDER BY e.available_at, e.seq
        LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION outbox.next_due() IS 'Relay: milliseconds until the next available_at in the future.';
