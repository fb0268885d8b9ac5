-- Partial indexes of what is pending and what failed: they stay small however long the history is.

-- For the relay's scan after a start or an outage (pending_page.sql).
CREATE INDEX events_pending ON outbox.events (seq) WHERE status = 'PENDING' AND available_at IS NULL;

-- For events with a time of their own, retries among them (due_page.sql).
CREATE INDEX events_due ON outbox.events (available_at, seq) WHERE status = 'PENDING' AND available_at IS NOT NULL;

-- For the keys that are held back, and the events that hold them (pending_page.sql, key_holders.sql).
CREATE INDEX events_holding ON outbox.events (aggregate_id, aggregate_type) WHERE holds_key;

-- For an operator's look at failures, and for replays of them.
CREATE INDEX events_failed ON outbox.events (seq) WHERE status = 'FAILED';
