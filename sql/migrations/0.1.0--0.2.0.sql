-- What changed in the tables from 0.1.0 to 0.2.0, and what was dropped. It is frozen: the release has it.
--
-- The column is added without rewriting a row.
DO $$
BEGIN
    IF outbox.version() = '0.1.0' THEN
        ALTER TABLE outbox.events ADD COLUMN replays integer NOT NULL DEFAULT 0;
        COMMENT ON COLUMN outbox.events.replays IS 'How often the event was replayed; header x-outbox-replay, from the first replay on.';
        ALTER TABLE outbox.events SET (autovacuum_vacuum_cost_limit = 2000);

        DROP FUNCTION outbox.rows_at(oid[], tid[]);
        DROP FUNCTION outbox.emit(text, text, text, text, text, jsonb, text, text, timestamptz); -- takes a content_type now
    END IF;
END
$$;
