//! The poller's table.

use harness::Connection;

/// Its name.
pub(crate) const TABLE_NAME: &str = "bench.outbox";

/// As one finds it in articles, with the partial index that keeps polling cheap.
pub(crate) const TABLE: &str = "
    CREATE SCHEMA bench;
    CREATE TABLE bench.outbox (
        id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
        seq            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
        created_at     timestamptz NOT NULL DEFAULT now(),
        topic          text        NOT NULL,
        event_type     text        NOT NULL,
        aggregate_type text        NOT NULL,
        aggregate_id   text        NOT NULL,
        payload        json        NOT NULL,
        status         text        NOT NULL DEFAULT 'PENDING',
        sent_at        timestamptz
    );
    CREATE INDEX ON bench.outbox (seq) WHERE status = 'PENDING';
";

/// One event (200 B); the parameter is its number.
pub(crate) const INSERT_ONE: &str = "
    INSERT INTO bench.outbox (topic, event_type, aggregate_type, aggregate_id, payload)
    VALUES ('order.moved', 'OrderMoved', 'order', ($1::int % 1000)::text,
            json_build_object('order', $1::int, 'text', repeat('x', 170)))
    RETURNING id";

/// So many events (200 B) at once, to be polled from this table.
pub(crate) async fn insert(db: &Connection, table: &str, events: u64) {
    let sql = format!(
        "INSERT INTO {table} (topic, event_type, aggregate_type, aggregate_id, payload)
         SELECT 'order.moved', 'OrderMoved', 'order', (i % 1000)::text,
                json_build_object('order', i, 'text', repeat('x', 170))
         FROM generate_series(1, {events}) AS i;"
    );
    db.batch_execute(&sql).await.expect("a backlog");
    db.batch_execute(&format!("ANALYZE {table}")).await.expect("ANALYZE");
}
