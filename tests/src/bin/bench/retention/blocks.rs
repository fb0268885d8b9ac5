//! A table in blocks, by ranges of `seq`, of which the oldest is dropped when all of it is old; or the same as one plain table.
//!
//! Rows go straight into the block that they belong to, and so do verdicts: routed by the root they would cost more.

use std::{cell::Cell, time::SystemTime};

use harness::{Connection, Database};
use uuid::Uuid;

use super::{BLOCKS, run::Shape};

pub(super) struct Blocks {
    /// Rows of a block; more than there are: it is a plain table.
    rows: u64,
    dropped: Cell<u64>,
}

const INDEXES: &str = "
    CREATE INDEX ON shape.events (seq) WHERE status = 'PENDING' AND available_at IS NULL;
    CREATE INDEX ON shape.events (available_at, seq) WHERE status = 'PENDING' AND available_at IS NOT NULL;
    CREATE INDEX ON shape.events (aggregate_id, aggregate_type) WHERE holds_key;
    CREATE INDEX ON shape.events (seq) WHERE status = 'FAILED';";

/// As the outbox has it.
const AUTOVACUUM: &str = "WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000)";

impl Blocks {
    pub(super) async fn new(db: &Database, rows: u64) -> Self {
        let like = "LIKE outbox.events INCLUDING DEFAULTS INCLUDING STORAGE";
        let make = if rows == u64::MAX {
            format!("CREATE TABLE shape.events ({like}, PRIMARY KEY (id)) {AUTOVACUUM}; {INDEXES}")
        } else {
            let root = format!("CREATE TABLE shape.events ({like}) PARTITION BY RANGE (seq); {INDEXES}");
            let blocks: String = (0..BLOCKS)
                .map(|number| {
                    let (first, next) = (number * rows + 1, (number + 1) * rows + 1);
                    format!(
                        "CREATE TABLE shape.block_{number} PARTITION OF shape.events (PRIMARY KEY (id))
                         FOR VALUES FROM ({first}) TO ({next}) {AUTOVACUUM};"
                    )
                })
                .collect();
            format!("{root} {blocks}")
        };
        // As settle() has it: a verdict finds its row by the primary key, whatever the statistics say.
        let plans: String = ["seqscan", "hashjoin", "mergejoin"]
            .iter()
            .map(|way| format!("ALTER DATABASE {} SET enable_{way} = off;", db.name()))
            .collect();
        db.batch_execute(&format!("CREATE SCHEMA shape; {make} {plans}")).await.expect("tables");
        Self { rows, dropped: Cell::new(0) }
    }

    fn is_plain(&self) -> bool {
        self.rows == u64::MAX
    }

    /// The table that the event of this number is in.
    fn home(&self, number: u64) -> String {
        if self.is_plain() { "shape.events".to_owned() } else { format!("shape.block_{}", (number - 1) / self.rows) }
    }
}

impl Shape for Blocks {
    async fn emit(&self, session: &Connection, first: u64, last: u64) -> Vec<Uuid> {
        let emit = format!(
            "WITH new AS (
                 INSERT INTO {} (seq, topic, payload, event_type, aggregate_type, aggregate_id)
                 SELECT n, 'order.moved', json_build_object('n', n, 'text', repeat(md5(n::text), 5)), 'OrderMoved', 'order', (n % 100000)::text
                 FROM generate_series({first}, {last}) AS n RETURNING id
             ) SELECT array_agg(id) FROM new",
            self.home(first)
        );
        session.query_one(&emit, &[]).await.expect("events").get(0)
    }

    async fn settle(&self, session: &Connection, first: u64, ids: &[Uuid]) {
        let settle = format!(
            "UPDATE {} SET status = 'SENT', attempts = attempts + 1, last_attempted_at = now(), processed_at = now()
             FROM unnest($1::uuid[]) AS sent (sent_id) WHERE id = sent_id",
            self.home(first)
        );
        session.execute(&settle, &[&ids]).await.expect("verdicts");
    }

    async fn delete(&self, session: &Connection, old: u64, _before: SystemTime) -> u64 {
        let blocks = if self.is_plain() { 0 } else { old / self.rows };
        let from = self.dropped.replace(blocks);
        for number in from..blocks {
            session.batch_execute(&format!("DROP TABLE shape.block_{number}")).await.expect("one block less");
        }
        (blocks - from) * self.rows
    }

    fn tables(&self) -> &'static str {
        "relnamespace = 'shape'::regnamespace"
    }
}
