-- Who has replayed or released what. outbox.replay(), replay_many() and release() write a row when they have changed something, in the
-- same transaction.
CREATE TABLE outbox.audit (
    id      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    action  text        NOT NULL,
    filter  jsonb       NOT NULL,
    events  bigint      NOT NULL,
    who     text,
    role    text        NOT NULL DEFAULT session_user,
    program text        NOT NULL DEFAULT current_setting('application_name')
);
COMMENT ON TABLE outbox.audit IS 'Who has replayed or released what.';
COMMENT ON COLUMN outbox.audit.action IS 'replay or release.';
COMMENT ON COLUMN outbox.audit.filter IS 'Which events: the arguments that were given.';
COMMENT ON COLUMN outbox.audit.events IS 'How many events were changed.';
COMMENT ON COLUMN outbox.audit.who IS 'For whom the session acted, as it said itself: the setting outbox.operator.';
COMMENT ON COLUMN outbox.audit.role IS 'The role that logged in.';
COMMENT ON COLUMN outbox.audit.program IS 'The application_name of the session.';
