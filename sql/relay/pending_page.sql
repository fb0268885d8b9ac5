-- Whether a body or headers are large, judged by their stored size, with a lower limit for a compressed value, which may
-- print a hundred times as many bytes. It becomes a part of the query that calls it, and does not unpack the value. A
-- function with a search_path of its own would not, so the operators are named in full.
CREATE OR REPLACE FUNCTION outbox.is_large(body anyelement) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT pg_catalog.pg_column_size(body) OPERATOR(pg_catalog.>) 16384
        OR pg_catalog.pg_column_size(body) OPERATOR(pg_catalog.>) 2048 AND pg_catalog.pg_column_compression(body) IS NOT NULL
$$;
COMMENT ON FUNCTION outbox.is_large(anyelement) IS 'Internal to pending_page(): whether a value is too large to be read without counting bytes.';

-- Returns what pending_page_by_bytes() returns, for less: rows go out as they are found, without a second look-up of each.
--
-- Nothing but max_rows limits a page, so a row with a large body or large headers comes without them, and is_large. The
-- relay ends the page there, reads on from that row by pending_page_by_bytes(), and then comes back. A page that cannot be read as
-- a whole is read by pending_page_by_bytes(), too. is_old is false from the first event on that older_than leaves out: the relay's
-- page ends before it.
--
-- Whether any key is held is asked once a page, and only then for each row. One plan serves all calls, whatever the statistics are.
CREATE OR REPLACE FUNCTION outbox.pending_page(
    after_seq bigint, max_rows integer, skip_types text[] DEFAULT '{}', skip_ids text[] DEFAULT '{}',
    older_than bigint DEFAULT NULL, respect_holds boolean DEFAULT true
) RETURNS TABLE (
    id uuid, seq bigint, created_at timestamptz, status outbox.status, attempts integer, replays integer, holds_key boolean,
    topic text, exchange text, event_type text, aggregate_type text, aggregate_id text, payload json, payload_bytes bytea, content_type text, headers json,
    correlation_id text, available_at timestamptz, last_error text, first_attempted_at timestamptz, is_large boolean, is_old boolean
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    oldest CONSTANT xid := older_than::text::xid;
BEGIN
    IF has_function_privilege('public', 'outbox.pending_page(bigint, integer, text[], text[], bigint, boolean)'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.pending_page(bigint, integer, text[], text[], bigint, boolean)');
    END IF;
    RETURN QUERY
        SELECT e.id, e.seq, e.created_at, e.status, e.attempts, e.replays, e.holds_key, e.topic, e.exchange,
            e.event_type, e.aggregate_type, e.aggregate_id,
            CASE WHEN NOT outbox.is_large(e.payload) THEN e.payload END,
            CASE WHEN NOT outbox.is_large(e.payload_bytes) THEN e.payload_bytes END,
            e.content_type, CASE WHEN NOT outbox.is_large(e.headers) THEN e.headers END,
            e.correlation_id, e.available_at, e.last_error, e.first_attempted_at,
            coalesce(
                outbox.is_large(e.payload) OR outbox.is_large(e.payload_bytes) OR outbox.is_large(e.headers), false
            ),
            oldest IS NULL OR age(e.xmin) > age(oldest)
        FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL AND e.seq > pending_page.after_seq
          -- A subquery that does not depend on the row is hashed once. No key is '', which stands for null here.
          AND (coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, '')) NOT IN (
              SELECT coalesce(skipped.type, ''), skipped.id FROM unnest(skip_types, skip_ids) AS skipped (type, id)
          )
          AND NOT (respect_holds AND (SELECT EXISTS (SELECT FROM outbox.events AS h WHERE h.holds_key)) AND EXISTS (
              SELECT FROM outbox.events AS h
              WHERE h.holds_key AND h.aggregate_id = e.aggregate_id AND h.id <> e.id
                AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type
          ))
        ORDER BY e.seq
        LIMIT pending_page.max_rows;
END
$$;
COMMENT ON FUNCTION outbox.pending_page(bigint, integer, text[], text[], bigint, boolean) IS
    'Relay: a page of pending events after seq, limited by rows; large events come without their contents.';
