//! Payloads of 5 MB beside small ones.

use std::collections::HashMap;

use harness::Stack;
use uuid::Uuid;

use super::{
    LONG, assert_memory_was_bounded, count, gate::Gate, ledger, patient_relay, resumed::Resumed,
    wait_until_none_is_pending,
};

/// `text(n)` is about 5 MB that compress badly; half of the large events are JSON, half are bytes.
const LARGE: &str = "
    SET outbox.max_payload_bytes = '8MB';
    CREATE FUNCTION text(n int) RETURNS text LANGUAGE sql AS
        $$ SELECT string_agg(md5(i::text || '/' || n), '') FROM generate_series(1, 160000) i $$;
    CREATE FUNCTION emit_large(n int, key text) RETURNS uuid LANGUAGE sql AS $$
        SELECT CASE n % 2
            WHEN 0 THEN outbox.emit('large', to_jsonb(text(n)), aggregate_type => 'large', aggregate_id => key)
            ELSE outbox.emit('large', convert_to(text(n), 'UTF8'), aggregate_type => 'large', aggregate_id => key)
        END $$;";

const SMALL: &str =
    "SELECT outbox.emit('small', to_jsonb(i), aggregate_type => 'small', aggregate_id => (i % 10)::text)
    FROM generate_series(1, 1000) i";

#[tokio::test]
async fn small_payloads_are_delivered_while_large_ones_that_fill_memory_are_nacked() {
    const LARGE_EVENTS: i64 = 12;
    let stack = Stack::new().await;
    let gate = Gate::closed(&stack.vhost, "large").await;
    let consumer = stack.consumer_with("small").without_bodies().start().await;
    let relay = patient_relay(&stack).set("max-bytes", "12MiB").set("retry-base", "500ms").set("retry-max", "2s");
    let relay = relay.start().await;
    stack.db.batch_execute(LARGE).await.unwrap();
    // Half of them have the same key.
    let large = format!("SELECT emit_large(n, greatest(n, 6)::text) FROM generate_series(1, {LARGE_EVENTS}) n");
    stack.db.batch_execute(&large).await.unwrap();
    stack.db.batch_execute(SMALL).await.unwrap();

    wait_until_none_is_pending(&stack.db, "topic = 'small'").await;
    assert_eq!(count(&stack.db, "topic = 'small' AND status = 'SENT' AND attempts = 1").await, 1000);
    assert_eq!(count(&stack.db, "topic = 'large' AND status = 'PENDING'").await, LARGE_EVENTS);
    gate.open().await;
    let opened = Resumed::on(&stack.vhost.url(), "large").await;
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT'").await, 1000 + LARGE_EVENTS);
    ledger::wait_for_all(&stack.db, || [consumer.ids(), opened.ids()].concat()).await;
    ledger::check(&stack.db, &[&consumer.ids(), &opened.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}

#[tokio::test]
async fn large_payloads_arrive_as_they_were_emitted_beside_small_ones() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("max-bytes", "12MiB").start().await;
    stack.db.batch_execute(LARGE).await.unwrap();
    for n in 0..8 {
        stack.db.batch_execute(SMALL).await.unwrap();
        stack.db.batch_execute(&format!("SELECT emit_large({n}, {n}::text)")).await.unwrap();
    }

    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, 8008);
    let deliveries = consumer.wait_for_within(8008, LONG).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    let bodies: HashMap<Uuid, Vec<u8>> = deliveries.into_iter().map(|delivery| (delivery.id, delivery.body)).collect();
    let sql = "SELECT id, coalesce(payload_bytes, convert_to(payload::text, 'UTF8')) FROM outbox.events WHERE topic = 'large'";
    for row in stack.db.query(sql, &[]).await.unwrap() {
        let (id, body): (Uuid, Vec<u8>) = (row.get(0), row.get(1));
        assert!(body.len() > 5_000_000 && bodies.get(&id) == Some(&body), "{id} arrived as something else");
    }
    assert_memory_was_bounded(&relay);
}

/// Some 100 bytes in the table, nearly a megabyte as text.
#[tokio::test]
async fn a_backlog_that_prints_far_larger_than_it_is_stored_fits_into_memory() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let numbers = ["1e131071"; 7].join(", ");
    let emit = format!("SELECT outbox.emit('t', '[{numbers}]'::jsonb) FROM generate_series(1, 200)");
    stack.db.batch_execute(&emit).await.unwrap();
    let relay = stack.relay().start().await;
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, 200);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    assert_memory_was_bounded(&relay);
}
