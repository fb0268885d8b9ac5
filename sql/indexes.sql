-- What is owed, and what failed: partial indexes, small however long the history is.

-- The relay's scan after a start or an outage (pending.sql).
CREATE INDEX events_pending ON outbox.events (seq) WHERE status = 'PENDING' AND available_at IS NULL;

-- Events with a time of their own, retries among them (due.sql).
CREATE INDEX events_due ON outbox.events (available_at, seq) WHERE status = 'PENDING' AND available_at IS NOT NULL;

-- Which keys are held back, and by which event (pending.sql, holding.sql).
CREATE INDEX events_holding ON outbox.events (aggregate_id, aggregate_type) WHERE holds_key;

-- An operator's look at failures, and their replay.
CREATE INDEX events_failed ON outbox.events (seq) WHERE status = 'FAILED';
