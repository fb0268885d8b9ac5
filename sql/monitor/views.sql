-- Two questions an operator has. Both are answered from the partial indexes, whatever the history.

-- What failed, and why? Without payloads.
CREATE OR REPLACE VIEW outbox.failed AS
SELECT seq, id, topic, exchange, event_type, aggregate_type, aggregate_id, correlation_id, attempts, last_error,
       holds_key, created_at, last_attempted_at
FROM outbox.events
WHERE status = 'FAILED'
ORDER BY seq;
COMMENT ON VIEW outbox.failed IS 'Events that the relay has given up, with the reason. See outbox.replay and outbox.replay_many.';

-- How much is pending, and since when? An attempt sets available_at and last_attempted_at, and a replay sets available_at back to null: an
-- event that has both is between two attempts, and stays so when the time of the next one has come.
CREATE OR REPLACE VIEW outbox.backlog AS
SELECT topic,
       count(*) FILTER (WHERE status = 'PENDING' AND (available_at IS NULL OR available_at <= now() AND last_attempted_at IS NULL)) AS pending,
       count(*) FILTER (WHERE status = 'PENDING' AND available_at > now() AND last_attempted_at IS NULL) AS scheduled,
       count(*) FILTER (WHERE status = 'PENDING' AND available_at IS NOT NULL AND last_attempted_at IS NOT NULL) AS retrying,
       count(*) FILTER (WHERE status = 'FAILED') AS failed,
       now() - min(coalesce(available_at, created_at))
           FILTER (WHERE status = 'PENDING' AND (available_at IS NULL OR available_at <= now() AND last_attempted_at IS NULL)) AS oldest_pending
FROM (
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'PENDING' AND available_at IS NULL
    UNION ALL
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'PENDING' AND available_at IS NOT NULL
    UNION ALL
    SELECT topic, status, last_attempted_at, available_at, created_at FROM outbox.events WHERE status = 'FAILED'
) AS unfinished
GROUP BY topic
ORDER BY topic;
COMMENT ON VIEW outbox.backlog IS 'Events not sent, by topic: pending, scheduled, to be tried again, failed, and the age of the oldest pending one.';
