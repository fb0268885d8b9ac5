-- The relay's scan: events that are owed now, in the order they were made, a page at a time.
--
-- A page ends after max_rows rows or max_bytes bytes, whichever comes first, but has at least one row if there is any.
-- Bytes are counted uncompressed, as they will be in the relay's memory. Events of the keys (skip_types[i], skip_ids[i])
-- are left out: those keys have in the relay's memory all that they may have.
--
-- The settings leave the planner no way but the index, whatever the statistics say: right after a bulk load, or for a
-- table that was empty when last looked at, it would otherwise sort the whole history for each page.
CREATE FUNCTION outbox.pending(
    after_seq bigint, max_rows integer, max_bytes bigint, skip_types text[] DEFAULT '{}', skip_ids text[] DEFAULT '{}'
) RETURNS SETOF outbox.events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    event outbox.events;
    bytes bigint := 0;
BEGIN
    FOR event IN
        SELECT * FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL AND e.seq > pending.after_seq
          -- A subquery that does not depend on the row is hashed once. No key is '', which stands for null here.
          AND (coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, '')) NOT IN (
              SELECT coalesce(skipped.type, ''), skipped.id FROM unnest(skip_types, skip_ids) AS skipped (type, id)
          )
        ORDER BY e.seq
        LIMIT pending.max_rows
    LOOP
        RETURN NEXT event;
        bytes := bytes + outbox.event_bytes(event.payload, event.payload_bytes, event.headers);
        EXIT WHEN bytes >= pending.max_bytes;
    END LOOP;
END
$$;
COMMENT ON FUNCTION outbox.pending(bigint, integer, bigint, text[], text[]) IS
    'Relay: events owed now, after seq, cut by rows and bytes.';
