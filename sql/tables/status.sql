-- The states of an event. Legal moves are in triggers/status.sql.
CREATE TYPE outbox.status AS ENUM (
    'PENDING', -- owed to the broker
    'SENT',    -- confirmed by the broker: routed, and persistent where its queue is
    'FAILED'   -- given up: last_error says why
);
COMMENT ON TYPE outbox.status IS 'PENDING: owed to the broker. SENT: confirmed by it. FAILED: given up, see last_error.';
