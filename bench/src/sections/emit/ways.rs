//! Ways to write an event. All of them say the same of it.

/// One way.
pub(super) struct Way {
    /// Its name in the report.
    pub(super) name: &'static str,
    /// What `outbox.direct_writes` is: where the extension has been tested it writes past the executor by itself.
    pub(super) direct_writes: &'static str,
    /// One event: topic, payload (200 B), event type, aggregate type and aggregate id are the parameters.
    pub(super) single: &'static str,
    /// Statement of a PL/pgSQL loop over `i`, with the payload in `body`.
    pub(super) in_a_loop: Option<&'static str>,
    /// `$rows` events in one statement.
    pub(super) set_based: &'static str,
}

/// An INSERT by hand into one of the tables.
macro_rules! insert_into {
    ($name:literal, $table:literal) => {
        Way {
            name: $name,
            direct_writes: "auto",
            single: concat!(
                "INSERT INTO ",
                $table,
                " (topic, payload, event_type, aggregate_type, aggregate_id) VALUES ($1, $2, $3, $4, $5) RETURNING id"
            ),
            in_a_loop: Some(concat!(
                "INSERT INTO ",
                $table,
                " (topic, payload, event_type, aggregate_type, aggregate_id)
                 VALUES ('order.moved', body, 'OrderMoved', 'order', i::text)"
            )),
            set_based: concat!(
                "INSERT INTO ",
                $table,
                " (topic, payload, event_type, aggregate_type, aggregate_id)
                 SELECT 'order.moved',
                     json_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                     'OrderMoved', 'order', (i % 1000)::text
                 FROM generate_series(1, $rows) AS i"
            ),
        }
    };
}

/// `outbox.emit()`, the INSERT it stands for, the same with other ways to check a row's form, and what people write
/// themselves.
pub(super) const WAYS: [Way; 6] = [
    Way {
        name: "emit()",
        direct_writes: "auto",
        single: EMIT,
        in_a_loop: Some(EMIT_IN_A_LOOP),
        set_based: EMIT_SET_BASED,
    },
    Way {
        name: "emit() by statements",
        direct_writes: "off",
        single: EMIT,
        in_a_loop: Some(EMIT_IN_A_LOOP),
        set_based: EMIT_SET_BASED,
    },
    insert_into!("INSERT", "outbox.events"),
    insert_into!("INSERT with CHECKs for the trigger", "bench.checked"),
    insert_into!("INSERT without any check", "bench.unchecked"),
    Way {
        name: "PL/pgSQL function",
        direct_writes: "auto",
        single: "SELECT bench.emit($1::text, $2::json, $3::text, $4::text, $5::text)",
        in_a_loop: None,
        set_based: "SELECT count(bench.emit('order.moved',
                        json_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                        'OrderMoved', 'order', (i % 1000)::text))
                    FROM generate_series(1, $rows) AS i",
    },
];

const EMIT: &str = "SELECT outbox.emit($1::text, $2::json, $3::text, $4::text, $5::text)";
const EMIT_IN_A_LOOP: &str = "PERFORM outbox.emit('order.moved', body, 'OrderMoved', 'order', i::text)";
const EMIT_SET_BASED: &str = "SELECT count(outbox.emit('order.moved',
                                  json_build_object('order', i, 'moved_to', 'station 12', 'text', repeat('x', 150)),
                                  'OrderMoved', 'order', (i % 1000)::text))
                              FROM generate_series(1, $rows) AS i";

/// Our table twice more, with CHECKs for what its INSERT trigger looks at, and with neither; and a function around our
/// INSERT, as PL/pgSQL has it.
pub(super) const TABLES_AND_FUNCTION: &str = "
    CREATE SCHEMA bench;
    CREATE TABLE bench.unchecked (LIKE outbox.events INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING INDEXES);
    CREATE TABLE bench.checked (LIKE outbox.events INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING INDEXES,
        CHECK (octet_length(topic) BETWEEN 1 AND 255),
        CHECK (octet_length(exchange) BETWEEN 1 AND 255),
        CHECK (octet_length(event_type) BETWEEN 1 AND 255),
        CHECK (octet_length(aggregate_type) BETWEEN 1 AND 255),
        CHECK (octet_length(aggregate_id) BETWEEN 1 AND 255),
        CHECK (octet_length(correlation_id) BETWEEN 1 AND 255),
        CHECK (octet_length(content_type) BETWEEN 1 AND 255),
        CHECK (num_nonnulls(payload, payload_bytes) = 1),
        CHECK (payload_bytes IS NULL OR octet_length(payload_bytes) <= 1000000),
        CHECK (json_typeof(headers) = 'object'),
        CHECK (isfinite(available_at))
    );
    CREATE FUNCTION bench.emit(topic text, payload json, event_type text, aggregate_type text, aggregate_id text)
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
