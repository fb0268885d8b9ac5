-- The states of an event. Legal moves are in triggers/status.sql.
CREATE TYPE outbox.status AS ENUM (
    'PENDING', -- to be delivered
    'SENT',    -- confirmed by the broker: routed, and persistent where its queue is
    'FAILED'   -- given up: last_error says why
);
COMMENT ON TYPE outbox.status IS 'PENDING: to be delivered. SENT: confirmed by the broker. FAILED: given up, see last_error.';
