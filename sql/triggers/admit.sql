-- Every new event passes outbox.admit(), whether it came by outbox.emit() or by INSERT: it checks the form and fills in
-- the context (correlation_id, traceparent).
--
-- The trigger has no WHEN clause: PostgreSQL parses one anew for every statement, which costs a single-row INSERT more
-- (10 microseconds) than calling the function (1).
CREATE OR REPLACE TRIGGER admit BEFORE INSERT ON outbox.events
    FOR EACH ROW EXECUTE FUNCTION outbox.admit();

-- ALWAYS: rows that logical replication brings pass the trigger, too. A row that nobody can read would stop all who read the
-- table.
ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER admit;
