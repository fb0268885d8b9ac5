//! The outbox itself, with what its relay calls.

use std::{
    cell::RefCell,
    time::{SystemTime, UNIX_EPOCH},
};

use harness::Connection;
use uuid::Uuid;

use super::run::Shape;

/// Pages that the relay looks through in one step.
const STRETCH: i64 = 256;

pub(super) struct Outbox {
    deletes: bool,
    /// When the oldest event was finished that each stretch of pages still has, as the relay remembers it.
    oldest: RefCell<Vec<Option<SystemTime>>>,
}

impl Outbox {
    pub(super) fn new(deletes: bool) -> Self {
        Self { deletes, oldest: RefCell::default() }
    }
}

impl Shape for Outbox {
    async fn emit(&self, session: &Connection, first: u64, last: u64) -> Vec<Uuid> {
        let emit = format!(
            "SELECT array_agg(outbox.emit('order.moved', json_build_object('n', n, 'text', repeat(md5(n::text), 5)), 'OrderMoved',
                 'order', (n % 100000)::text)) FROM generate_series({first}, {last}) AS n"
        );
        session.query_one(&emit, &[]).await.expect("events").get(0)
    }

    async fn settle(&self, session: &Connection, _first: u64, ids: &[Uuid]) {
        let settle = "SELECT outbox.settle($1::uuid[], array_fill('SENT'::outbox.status, ARRAY[cardinality($1)]),
                          array_fill(NULL::text, ARRAY[cardinality($1)]))";
        session.query(settle, &[&ids]).await.expect("verdicts");
    }

    async fn delete(&self, session: &Connection, _old: u64, before: SystemTime) -> u64 {
        if !self.deletes {
            return 0;
        }
        let step = "SELECT deleted, oldest_sent, table_pages FROM outbox.delete_finished($1, NULL, $2, 256)";
        let (mut deleted, mut from, mut pages) = (0, 0, STRETCH);
        while from < pages {
            let number = usize::try_from(from / STRETCH).expect("a small number");
            let known = self.oldest.borrow().get(number).copied();
            if known.is_none_or(|oldest| oldest.unwrap_or(UNIX_EPOCH) < before) {
                let row = session.query_one(step, &[&before, &from]).await.expect("a step");
                deleted += row.get::<_, i64>(0).unsigned_abs();
                pages = row.get(2);
                let mut oldest = self.oldest.borrow_mut();
                let stretches = oldest.len().max(number + 1);
                oldest.resize(stretches, None);
                if let Some(oldest) = oldest.get_mut(number) {
                    *oldest = row.get(1);
                }
            }
            from += STRETCH;
        }
        deleted
    }

    fn tables(&self) -> &'static str {
        "oid = 'outbox.events'::regclass"
    }
}
