-- Returns the events that are pending and have no time of their own, in the order in which they were made, a page at a time. The relay
-- reads most pages by pending_page.sql, and those with large events by this function.
--
-- A page ends after max_rows rows or max_bytes bytes, whichever comes first, but has at least one row if there is any.
-- Bytes are counted uncompressed, as they will be in the relay's memory. Events of the keys (skip_types[i], skip_ids[i])
-- are left out: those keys already have as many events in the relay's memory as they may have. Events that wait for the holder of
-- their key are left out, too, unless respect_holds is false.
--
-- Later pages are given older_than, the oldest transaction that was running when the first page was read, and end before the
-- first event of a later transaction: it may build on an event that could not be seen then, and whose seq the pages have passed.
--
-- A row that cannot be read comes alone and without its contents (cut_page.sql). With row_by_row, a page has one row, which is tried
-- first; the relay asks for that when a page has failed. Even its bytes are counted there only where an error is caught: without the
-- extension, a value has to be read for that.
--
-- The settings leave the planner no way but the index, whatever the statistics say. Otherwise it would sort the whole history
-- for each page right after a bulk load, or when the table was empty at its last ANALYZE.
CREATE OR REPLACE FUNCTION outbox.pending_page_by_bytes(
    after_seq bigint, max_rows integer, max_bytes bigint, skip_types text[] DEFAULT '{}', skip_ids text[] DEFAULT '{}',
    older_than bigint DEFAULT NULL, respect_holds boolean DEFAULT true,
    row_by_row boolean DEFAULT false
) RETURNS SETOF outbox.events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    oldest xid := older_than::text::xid;
    rows refcursor;
    page record;
BEGIN
    IF has_function_privilege('public', 'outbox.pending_page_by_bytes(bigint, integer, bigint, text[], text[], bigint, boolean, boolean)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.pending_page_by_bytes(bigint, integer, bigint, text[], text[], bigint, boolean, boolean)');
    END IF;
    OPEN rows FOR
        SELECT e.tableoid AS row_table, e.ctid AS row_ctid, oldest IS NULL OR age(e.xmin) > age(oldest) AS is_old,
            CASE WHEN NOT row_by_row THEN outbox.event_bytes(e.payload, e.payload_bytes, e.headers) END AS bytes
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL AND e.seq > pending_page_by_bytes.after_seq
          -- A subquery that does not depend on the row is hashed once. No key is '', which stands for null here.
          AND (coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, '')) NOT IN (
              SELECT coalesce(skipped.type, ''), skipped.id FROM unnest(skip_types, skip_ids) AS skipped (type, id)
          )
          AND (NOT respect_holds OR NOT EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.seq
        LIMIT pending_page_by_bytes.max_rows;
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
COMMENT ON FUNCTION outbox.pending_page_by_bytes(bigint, integer, bigint, text[], text[], bigint, boolean, boolean) IS
    'Relay: a page of pending events after seq, limited by rows and bytes.';
