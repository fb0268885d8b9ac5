-- The outbox: one row is one message.
--
-- The upper columns are the envelope, which the application writes once. The lower ones are the delivery, which the relay
-- writes, or an operator who replays. Fixed-width columns that are never null come first, where PostgreSQL finds
-- them without walking the row.
--
-- The limits of a row's form are checked by its INSERT trigger (triggers/admit.sql), not by CHECK constraints: eleven
-- CHECKs made a single-row INSERT three times as slow (8.6 to 26.8 microseconds), because PostgreSQL parses a table's
-- CHECKs anew for every statement, and they would be checked again at each status update.
--
-- payload and headers are json, not jsonb: they are read as a whole, so they are not to be taken apart at each INSERT and printed again
-- each time they are read.
CREATE TABLE outbox.events (
    id                uuid          NOT NULL DEFAULT outbox.uuid_v7() PRIMARY KEY,
    seq               bigint        NOT NULL,
    created_at        timestamptz   NOT NULL DEFAULT now(),
    status            outbox.status NOT NULL DEFAULT 'PENDING',
    attempts          integer       NOT NULL DEFAULT 0,
    replays           integer       NOT NULL DEFAULT 0,
    holds_key         boolean       NOT NULL DEFAULT false,

    topic             text          NOT NULL,
    exchange          text,
    event_type        text,
    aggregate_type    text,
    aggregate_id      text,
    payload           json,
    payload_bytes     bytea,
    content_type      text,
    headers           json,
    correlation_id    text,
    available_at      timestamptz,

    last_error        text,
    first_attempted_at timestamptz,
    last_attempted_at timestamptz,
    processed_at      timestamptz
) WITH (
    -- Every row is updated once or twice soon after its INSERT, so dead versions and dead index entries gather at the head
    -- of the queue. The default, a fifth of the table, would let millions gather over a long history.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000,
    -- Ten times the default. At most 40 MB a second are cleaned with that, which is less than a busy outbox dirties: at 50,000 events a
    -- second the room of deleted ones was free too late, and the table grew as if all were kept (make bench ONLY=retention).
    autovacuum_vacuum_cost_limit = 2000
);

-- A sequence that is made with its table is made before it, and DROP EXTENSION locks in the order of making: the sequence, then the table.
-- An INSERT locks the table first, so the two could deadlock.
ALTER TABLE outbox.events ALTER seq ADD GENERATED ALWAYS AS IDENTITY;

COMMENT ON TABLE outbox.events IS 'Messages for RabbitMQ or Kafka, each committed with the business rows it speaks of.';
COMMENT ON COLUMN outbox.events.id IS 'UUID version 7, the same on every delivery: the AMQP message_id, or the header id of a Kafka record.';
COMMENT ON COLUMN outbox.events.seq IS 'Order in which events were made (not: committed); header x-outbox-seq.';
COMMENT ON COLUMN outbox.events.created_at IS 'Start of the transaction that emitted; the AMQP timestamp, or the header time of a Kafka record.';
COMMENT ON COLUMN outbox.events.status IS 'PENDING, SENT or FAILED.';
COMMENT ON COLUMN outbox.events.attempts IS 'Publishes that the broker answered, except while it took nothing; a replay sets it back to 0.';
COMMENT ON COLUMN outbox.events.replays IS 'How often the event was replayed; header x-outbox-replay, from the first replay on.';
COMMENT ON COLUMN outbox.events.holds_key IS 'Whether later events with the same key wait: this one is being retried, or has FAILED and the relay is told to hold.';
COMMENT ON COLUMN outbox.events.topic IS 'Routing key in RabbitMQ; the topic in Kafka, unless the relay makes it of other columns.';
COMMENT ON COLUMN outbox.events.exchange IS 'Exchange in RabbitMQ, topic in Kafka; null: the relay''s default.';
COMMENT ON COLUMN outbox.events.event_type IS 'AMQP type; header type of a Kafka record.';
COMMENT ON COLUMN outbox.events.aggregate_type IS 'First half of the ordering key, and a header.';
COMMENT ON COLUMN outbox.events.aggregate_id IS 'Second half of the ordering key, whose events are delivered in commit order; the key of a Kafka record.';
COMMENT ON COLUMN outbox.events.payload IS 'Body as JSON, which is sent as it was written; or payload_bytes is set.';
COMMENT ON COLUMN outbox.events.payload_bytes IS 'Body as bytes, with content_type; or payload is set.';
COMMENT ON COLUMN outbox.events.content_type IS 'AMQP content_type, or header content-type of a Kafka record; null: application/json.';
COMMENT ON COLUMN outbox.events.headers IS 'Headers of the message, a JSON object.';
COMMENT ON COLUMN outbox.events.correlation_id IS 'AMQP correlation_id, or header of a Kafka record; left out: the setting outbox.correlation_id.';
COMMENT ON COLUMN outbox.events.available_at IS 'The event is not sent before this time; null: at once. After a failed attempt the relay sets it to the time of the next one.';
COMMENT ON COLUMN outbox.events.last_error IS 'What the broker said to the last attempt, if that failed; a replay keeps it.';
COMMENT ON COLUMN outbox.events.first_attempted_at IS 'Time of the first failed attempt that counted, from which retry_for is measured; a replay sets it back to null.';
COMMENT ON COLUMN outbox.events.last_attempted_at IS 'Time of the last attempt.';
COMMENT ON COLUMN outbox.events.processed_at IS 'Time the event became SENT or FAILED.';
