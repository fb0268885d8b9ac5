-- The sequence of seq. The table orders a key's events by seq, so each new event needs a greater number than all earlier ones.
--
-- Logical replication copies no sequence, nor does pg_dump --data-only of one table: the rows arrive, and the sequence starts at 1. CACHE,
-- CYCLE, a negative INCREMENT and setval() break the order, too.

-- Returns the state of the sequence, and changes nothing. It reads some thousands of rows at most, however many there are: the greatest
-- seq among pending and failed events, as the partial indexes have it, among the newest ids, and on the last pages. Index entries of dead
-- rows that VACUUM could not remove come on top.
--
-- next_value is read after the snapshot of the rows, so concurrent emitters cannot make the sequence look behind.
CREATE OR REPLACE FUNCTION outbox.sequence_state(
    OUT sequence     text,    -- null: seq takes its numbers from none
    OUT next_value   bigint,  -- null: none is left
    OUT greatest_seq bigint,  -- null: there are no events
    OUT codes        text[],  -- empty: all is well
    OUT fault        text     -- what is wrong, in a sentence
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_indexscan = on
SET enable_tidscan = on
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    events CONSTANT oid := 'outbox.events'::regclass;
    few CONSTANT integer := 1000;
    -- No outbox reaches this by emitting: 285,000 years at a million events a second.
    last_good CONSTANT bigint := 9000000000000000000;
    identity "char";
    owner oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = events);
    owner_of_sequence pg_roles;
    parameters pg_sequence;
    last_value numeric;
    is_called boolean;
    last_pages tid;
    faults text[] := '{}';
BEGIN
    IF has_function_privilege('public', 'outbox.sequence_state()'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.sequence_state()');
    END IF;
    codes := '{}';
    last_pages := format('(%s,0)', greatest(pg_relation_size('outbox.events') / current_setting('block_size')::bigint - 16, 0))::tid;
    SELECT max(found.seq) INTO greatest_seq
    FROM (
        (SELECT e.seq FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq DESC LIMIT 1)
        UNION ALL
        (SELECT e.seq FROM outbox.events AS e WHERE e.status = 'FAILED' ORDER BY e.seq DESC LIMIT 1)
        UNION ALL
        (SELECT e.seq FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL
         ORDER BY e.available_at, e.seq LIMIT few)
        UNION ALL
        (SELECT e.seq FROM outbox.events AS e WHERE e.status = 'PENDING' AND e.available_at IS NOT NULL
         ORDER BY e.available_at DESC, e.seq DESC LIMIT few)
        UNION ALL
        (SELECT e.seq FROM outbox.events AS e ORDER BY e.id DESC LIMIT few)
        UNION ALL
        (SELECT e.seq FROM ONLY outbox.events AS e WHERE e.ctid >= last_pages)
    ) AS found;

    -- An identity column has its own sequence; a DEFAULT names one.
    SELECT a.attidentity INTO identity FROM pg_attribute AS a WHERE a.attrelid = events AND a.attname = 'seq';
    SELECT s.* INTO parameters FROM pg_sequence AS s
    WHERE s.seqrelid = CASE
        WHEN identity <> '' THEN pg_get_serial_sequence('outbox.events', 'seq')::regclass
        ELSE (SELECT d.refobjid FROM pg_attribute AS a
              JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
              JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
              JOIN pg_class AS c ON c.oid = d.refobjid AND c.relkind = 'S'
              -- Of an expression, as nextval() * 10, the numbers are not the sequence's.
              WHERE a.attrelid = events AND a.attname = 'seq'
                AND pg_get_expr(f.adbin, f.adrelid) = format('nextval(%L::regclass)', c.oid::regclass))
    END;
    IF parameters.seqrelid IS NULL THEN
        codes := codes || 'no_sequence'::text;
        faults := faults || 'seq is no identity column any more, and its DEFAULT is not nextval() of one sequence'::text;
    ELSE
        sequence := parameters.seqrelid::regclass;
        SELECT r.* INTO owner_of_sequence FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner WHERE c.oid = parameters.seqrelid;
    END IF;
    IF owner_of_sequence.oid <> owner AND NOT owner_of_sequence.rolsuper THEN
        -- Its name could become that of a view, whose functions would run with this function's rights.
        codes := codes || 'foreign_sequence'::text;
        faults := faults || format('the sequence %s belongs to role %I, and outbox.events to %s', sequence, owner_of_sequence.rolname, owner::regrole);
    ELSIF sequence IS NOT NULL THEN
        EXECUTE format('SELECT s.last_value, s.is_called FROM %s AS s', sequence) INTO last_value, is_called;
        last_value := last_value + CASE WHEN is_called THEN parameters.seqincrement ELSE 0 END;
        next_value := CASE WHEN last_value BETWEEN parameters.seqmin AND parameters.seqmax THEN last_value END;
        IF next_value <= greatest_seq OR next_value IS NULL AND last_value <= greatest_seq THEN
            codes := codes || 'behind'::text;
            faults := faults || format('the next event would get the number %s, and there is one with %s', last_value, greatest_seq);
        END IF;
        IF parameters.seqincrement < 0 THEN
            faults := faults || format('INCREMENT is %s', parameters.seqincrement);
        END IF;
        IF parameters.seqcache <> 1 THEN
            faults := faults || format('CACHE is %s, so each session takes numbers in advance', parameters.seqcache);
        END IF;
        IF parameters.seqcycle THEN
            faults := faults || 'it has CYCLE, and begins again after its last number'::text;
        END IF;
        IF next_value IS NULL AND last_value <= last_good THEN
            faults := faults || format('no number is left: they are from %s to %s', parameters.seqmin, parameters.seqmax);
        END IF;
        IF cardinality(faults) > cardinality(codes) THEN
            codes := codes || 'altered'::text;
        END IF;
        IF greatest(last_value, greatest_seq) > last_good THEN
            codes := codes || 'near_end'::text;
            faults := faults || 'the numbers of a bigint come to an end'::text;
        END IF;
    END IF;
    fault := nullif(array_to_string(faults, '; '), '');
END
$$;
COMMENT ON FUNCTION outbox.sequence_state() IS 'State of the sequence of seq, which decides the order of a key in the table.';

-- Mends the sequence. Returns what was wrong and the next number, or 'in order'.
--
-- SECURITY DEFINER: only the owner may change it. A sequence that is behind is moved at once, a million beyond the greatest number found:
-- beyond what a short look has missed, and what others have taken meanwhile. Other parameters need ALTER SEQUENCE, which has every session
-- give up numbers that it has taken in advance, and waits for open transactions that have emitted. Emitters queue behind it, so it gives
-- up after 250 ms. What breaks no order is left: a greater INCREMENT, START, MINVALUE, and a MAXVALUE that is not reached.
CREATE OR REPLACE FUNCTION outbox.ensure_sequence() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '250ms'
AS $$
DECLARE
    head_start CONSTANT bigint := 1000000;
    was record;
    now_is record;
BEGIN
    IF has_function_privilege('public', 'outbox.ensure_sequence()'::regprocedure, 'EXECUTE') THEN
        PERFORM outbox.require_grant('outbox.ensure_sequence()');
    END IF;
    SELECT s.* INTO was FROM outbox.sequence_state() AS s;
    IF was.codes = '{}' THEN
        RETURN 'in order';
    END IF;
    -- One session mends at a time: a second setval() could take back numbers given in between. LOCK does not take a sequence, and autovacuum
    -- holds this lock on a large outbox.events for hours, so outbox.audit stands in for it.
    LOCK TABLE outbox.audit IN SHARE UPDATE EXCLUSIVE MODE;
    SELECT s.* INTO now_is FROM outbox.sequence_state() AS s;
    IF now_is.codes && '{no_sequence,foreign_sequence,near_end}' THEN
        RAISE EXCEPTION 'the sequence of outbox.events.seq cannot be mended: %', now_is.fault
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE
                      WHEN 'no_sequence' = ANY (now_is.codes)
                      THEN 'Make seq GENERATED ALWAYS AS IDENTITY again, or give it a DEFAULT of nextval() of a sequence.'
                      WHEN 'foreign_sequence' = ANY (now_is.codes)
                      THEN format('Make seq GENERATED ALWAYS AS IDENTITY again, or ALTER SEQUENCE %s OWNER TO the owner of outbox.events.', now_is.sequence)
                      ELSE 'Once no event is PENDING, delete those with such numbers, and let the sequence begin at 1 again.' END;
    END IF;
    -- Others go on taking numbers; they do not take a million between the look and setval().
    IF 'behind' = ANY (now_is.codes) THEN
        EXECUTE format('SELECT setval(%L, $1) FROM %s AS s, pg_sequence AS p
                        WHERE p.seqrelid = %L::regclass AND s.last_value < $1 AND $1 BETWEEN p.seqmin AND p.seqmax',
                       now_is.sequence, now_is.sequence, now_is.sequence)
        USING now_is.greatest_seq + head_start;
        SELECT s.* INTO now_is FROM outbox.sequence_state() AS s; -- behind still, if its bounds do not reach so far
    END IF;
    IF now_is.codes && '{altered,behind}' THEN
        BEGIN
            EXECUTE format('ALTER SEQUENCE %s CACHE 1', now_is.sequence); -- from here on no new transaction gets a number
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION 'the sequence of outbox.events.seq is in use: %', now_is.fault
                USING ERRCODE = 'object_in_use',
                      HINT = 'It is altered in a moment in which no transaction that has emitted is open. The relay tries again by itself.';
        END;
        SELECT s.* INTO now_is FROM outbox.sequence_state() AS s;
        EXECUTE format('ALTER SEQUENCE %s AS bigint INCREMENT %s NO MINVALUE NO MAXVALUE START 1 RESTART %s CACHE 1 NO CYCLE',
            now_is.sequence,
            (SELECT greatest(p.seqincrement, 1) FROM pg_sequence AS p WHERE p.seqrelid = now_is.sequence::regclass),
            CASE
                WHEN now_is.next_value IS NULL OR 'behind' = ANY (now_is.codes) THEN coalesce(now_is.greatest_seq, 0) + head_start
                ELSE greatest(now_is.next_value, 1) END);
    END IF;
    SELECT s.* INTO now_is FROM outbox.sequence_state() AS s;
    RETURN format('%s: mended, the next event gets %s', was.fault, now_is.next_value);
END
$$;
COMMENT ON FUNCTION outbox.ensure_sequence() IS 'Mends the sequence of seq, so that later events have greater numbers; says what was wrong.';
