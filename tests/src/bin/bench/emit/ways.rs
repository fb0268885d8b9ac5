//! Ways to write an event. All of them say the same of it.

/// One way.
pub(super) struct Way {
    /// Its name in the report.
    pub(super) name: &'static str,
    /// One event: topic, payload (200 B), event type, aggregate type and aggregate id are the parameters.
    pub(super) single: &'static str,
    /// Statement of a PL/pgSQL loop over `i`, with the payload in `body`.
    pub(super) in_a_loop: Option<&'static str>,
    /// `$rows` events in one statement.
    pub(super) set_based: &'static str,
}

/// `outbox.emit()`, the INSERT it stands for, and what people write themselves.
pub(super) const WAYS: [Way; 4] = [
    Way {
        name: "emit()",
        single: "SELECT outbox.emit($1::text, $2::jsonb, $3::text, $4::text, $5::text)",
        in_a_loop: Some("PERFORM outbox.emit('order.moved', body, 'OrderMoved', 'order', i::text)"),
        set_based: "SELECT count(outbox.emit('order.moved',
                        jsonb_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                        'OrderMoved', 'order', (i % 1000)::text))
                    FROM generate_series(1, $rows) AS i",
    },
    Way {
        name: "INSERT",
        single: "INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id)
                 VALUES ($1, $2, $3, $4, $5) RETURNING id",
        in_a_loop: Some(
            "INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id)
             VALUES ('order.moved', body, 'OrderMoved', 'order', i::text)",
        ),
        set_based: "INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id)
                    SELECT 'order.moved',
                        jsonb_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                        'OrderMoved', 'order', (i % 1000)::text
                    FROM generate_series(1, $rows) AS i",
    },
    Way {
        name: "PL/pgSQL function",
        single: "SELECT bench.emit($1::text, $2::jsonb, $3::text, $4::text, $5::text)",
        in_a_loop: None,
        set_based: "SELECT count(bench.emit('order.moved',
                        jsonb_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                        'OrderMoved', 'order', (i % 1000)::text))
                    FROM generate_series(1, $rows) AS i",
    },
    Way {
        name: "plain table INSERT",
        single: "INSERT INTO bench.outbox (topic, payload, event_type, aggregate_type, aggregate_id)
                 VALUES ($1, $2, $3, $4, $5) RETURNING id",
        in_a_loop: None,
        set_based: "INSERT INTO bench.outbox (topic, payload, event_type, aggregate_type, aggregate_id)
                    SELECT 'order.moved',
                        jsonb_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                        'OrderMoved', 'order', (i % 1000)::text
                    FROM generate_series(1, $rows) AS i",
    },
];

/// The outbox table that one finds in articles, without checks, identity or order; and a function around our INSERT, as
/// PL/pgSQL has it.
pub(super) const TABLE_AND_FUNCTION: &str = "
    CREATE SCHEMA bench;
    CREATE TABLE bench.outbox (
        id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
        created_at     timestamptz NOT NULL DEFAULT now(),
        topic          text        NOT NULL,
        event_type     text,
        aggregate_type text,
        aggregate_id   text,
        payload        jsonb       NOT NULL,
        status         text        NOT NULL DEFAULT 'PENDING'
    );
    CREATE INDEX ON bench.outbox (created_at) WHERE status = 'PENDING';
    CREATE FUNCTION bench.emit(topic text, payload jsonb, event_type text, aggregate_type text, aggregate_id text)
    RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        event_id uuid;
    BEGIN
        INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id)
        VALUES ($1, $2, $3, $4, $5)
        RETURNING id INTO event_id;
        RETURN event_id;
    END
    $$;
";
