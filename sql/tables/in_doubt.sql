-- Events that a broker may have and whose verdicts are late. A relay whose broker keeps a log keeps them here for its successor, so that no
-- event is published twice. It is new in 0.3.0, so an upgrade makes it as well. No dump of the extension has its rows.
CREATE TABLE IF NOT EXISTS outbox.in_doubt (
    id        uuid        NOT NULL,
    replays   integer     NOT NULL,
    since     timestamptz NOT NULL,
    delivered boolean     NOT NULL,
    CONSTRAINT in_doubt_pkey PRIMARY KEY (id, replays)
);
COMMENT ON TABLE outbox.in_doubt IS 'Relay: events that the broker may have and whose verdicts are late.';
COMMENT ON COLUMN outbox.in_doubt.replays IS 'How often the event had been replayed; -1: the row is no event, but the last verdict before the session of a relay.';
COMMENT ON COLUMN outbox.in_doubt.since IS 'When the event was first published, or the verdict was written.';
COMMENT ON COLUMN outbox.in_doubt.delivered IS 'Whether the broker has confirmed the event, so that only its verdict is missing.';
