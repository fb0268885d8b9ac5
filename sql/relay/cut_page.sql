-- Cuts the pages of pending_page_by_bytes.sql and due_page.sql, and says what stands in for a row that cannot be read.
--
-- A row that passed the checks can always be read. One that came in without them (triggers disabled), or whose pages on disk
-- are damaged, may be too large to print, or unreadable. Such a row must not stop the others: it comes without its contents,
-- alone in its page, with the reason in last_error, and the relay gives it up.

-- The largest row that is read, in bytes: a little more than the largest event, whose body has 128 MB and
-- everything else together less than a tenth of a MB. The relay lets no larger row in.
CREATE OR REPLACE FUNCTION outbox.largest_row() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 129 * 1024 * 1024;
COMMENT ON FUNCTION outbox.largest_row() IS 'Bytes of the largest row that the relay reads.';

-- Says why the row at this place cannot be read as a whole; null if it can. It prints the row to find out, so it is called only
-- after a page has failed.
CREATE OR REPLACE FUNCTION outbox.unreadable(row_table oid, row_ctid tid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bigint;
BEGIN
    SELECT outbox.event_bytes(e.payload, e.payload_bytes, e.headers) INTO bytes
    FROM outbox.events AS e
    WHERE e.ctid = row_ctid AND e.tableoid = row_table;
    IF bytes > outbox.largest_row() THEN
        RETURN format('%s bytes', bytes);
    END IF;
    -- hashtext() and sha256() look at every byte; a length may be known without that. In another encoding a text may be none in
    -- UTF-8, in which it is sent.
    SELECT coalesce(octet_length(e.payload_bytes) + 0 * octet_length(sha256(e.payload_bytes)), 0) + (
        SELECT sum(0 * hashtext(value)::bigint + CASE getdatabaseencoding() WHEN 'UTF8' THEN octet_length(value)
            ELSE octet_length(convert_to(value, 'UTF8')) END)
        FROM unnest(ARRAY[e.payload::text, e.headers::text, e.topic, e.exchange, e.event_type, e.aggregate_type, e.aggregate_id,
                          e.content_type, e.correlation_id, e.last_error]) AS value
    )
    INTO bytes
    FROM outbox.events AS e
    WHERE e.ctid = row_ctid AND e.tableoid = row_table;
    RETURN CASE WHEN bytes > outbox.largest_row() THEN format('%s bytes when printed', bytes) END;
EXCEPTION WHEN OTHERS THEN
    RETURN sqlerrm;
END
$$;
COMMENT ON FUNCTION outbox.unreadable(oid, tid) IS 'Internal to pending_page_by_bytes() and due_page(): why a row cannot be read; null if it can.';

-- Returns a text, or null if it cannot be sent: in a database with another encoding it may have no form in UTF-8.
CREATE OR REPLACE FUNCTION outbox.sendable(value text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF getdatabaseencoding() <> 'UTF8' THEN
        PERFORM convert_to(value, 'UTF8');
    END IF;
    RETURN value;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION outbox.sendable(text) IS 'Internal to pending_page_by_bytes() and due_page(): a text, or null if it cannot be sent.';

-- Returns those columns of the row at this place that have a fixed size, and its key if that fits.
CREATE OR REPLACE FUNCTION outbox.row_without_contents(row_table oid, row_ctid tid, reason text) RETURNS outbox.events
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_populate_record(NULL::outbox.events, jsonb_build_object(
        'id', e.id, 'seq', e.seq, 'created_at', e.created_at, 'status', e.status, 'attempts', e.attempts, 'replays', e.replays,
        'holds_key', e.holds_key, 'available_at', e.available_at, 'first_attempted_at', e.first_attempted_at,
        'aggregate_type', CASE WHEN pg_column_size(e.aggregate_type) < 1024 THEN outbox.sendable(e.aggregate_type) END,
        'aggregate_id', CASE WHEN pg_column_size(e.aggregate_id) < 1024 THEN outbox.sendable(e.aggregate_id) END,
        'last_error', 'the row cannot be read: ' || reason
    ))
    FROM outbox.events AS e WHERE e.ctid = row_ctid AND e.tableoid = row_table
$$;
COMMENT ON FUNCTION outbox.row_without_contents(oid, tid, text) IS
    'Internal to pending_page_by_bytes() and due_page(): what stands in for a row that cannot be read.';

-- Cuts a page from the rows that a cursor finds (row_table, row_ctid, is_old, bytes): after max_bytes, with at least one row if there is
-- any, and before the first that is not old. A row that cannot be read ends the page before it; if it is the first, it is alone in ctids,
-- and reason says why. With row_by_row, a page has one row, which is tried.
CREATE OR REPLACE FUNCTION outbox.cut_page(
    rows refcursor, max_bytes bigint, row_by_row boolean, OUT tables oid[], OUT ctids tid[], OUT reason text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    candidate record;
    bytes bigint := 0;
BEGIN
    tables := '{}';
    ctids := '{}';
    LOOP
        FETCH rows INTO candidate;
        EXIT WHEN NOT FOUND OR NOT candidate.is_old;
        reason := CASE WHEN row_by_row THEN outbox.unreadable(candidate.row_table, candidate.row_ctid)
            WHEN candidate.bytes > outbox.largest_row() THEN format('%s bytes', candidate.bytes) END;
        IF reason IS NOT NULL AND cardinality(ctids) > 0 THEN
            reason := NULL;
            EXIT;
        END IF;
        tables := tables || candidate.row_table;
        ctids := ctids || candidate.row_ctid;
        bytes := bytes + candidate.bytes;
        EXIT WHEN reason IS NOT NULL OR row_by_row OR bytes >= max_bytes;
    END LOOP;
    CLOSE rows;
END
$$;
COMMENT ON FUNCTION outbox.cut_page(refcursor, bigint, boolean) IS 'Internal to pending_page_by_bytes() and due_page(): which rows of a cursor make a page.';
