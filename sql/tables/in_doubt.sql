-- Events that a broker may have and whose verdicts are late. A relay whose broker keeps a log keeps them here for its successor, so that no
-- event is published twice. A copy of the database in another cluster has another publisher, and passes over these rows.
CREATE TABLE outbox.in_doubt (
    publisher text        NOT NULL,
    id        uuid        NOT NULL,
    replays   integer     NOT NULL,
    since     timestamptz NOT NULL,
    delivered boolean     NOT NULL,
    kept_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (publisher, id, replays)
);
COMMENT ON TABLE outbox.in_doubt IS 'Relay: events that the broker may have and whose verdicts are late.';
COMMENT ON COLUMN outbox.in_doubt.publisher IS 'Name under which the relay publishes.';
COMMENT ON COLUMN outbox.in_doubt.replays IS 'How often the event had been replayed; -1: the row is the floor of a session, and no event.';
COMMENT ON COLUMN outbox.in_doubt.since IS 'When the event was first published; the floor: the last verdict before the session.';
COMMENT ON COLUMN outbox.in_doubt.delivered IS 'Whether the broker has confirmed the event, so that only its verdict is missing.';
