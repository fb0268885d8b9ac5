//! Events that the broker or AMQP cannot take, between good ones.

use harness::{Postgres, RabbitMq, Stack};

use super::{LONG, count, ledger, wait_until_none_is_pending};

/// The largest message that the broker takes.
const LIMIT: &str = "65536";

/// What is wrong, the event's arguments beyond its key, and how the reason begins.
const POISON: [(&str, &str, &str); 5] = [
    ("unroutable", "'unbound', '1'::jsonb", "312 NO_ROUTE"),
    ("missing-exchange", "'t', '1'::jsonb, exchange => 'no-such-exchange'", "404 NOT_FOUND"),
    ("internal-exchange", "'t', '1'::jsonb, exchange => 'amq.rabbitmq.trace'", "403 ACCESS_REFUSED"),
    ("too-large", "'t', convert_to(repeat('x', 65537), 'UTF8')", "406 PRECONDITION_FAILED"),
    ("too-large-json", "'t', to_jsonb(repeat('x', 900000))", "406 PRECONDITION_FAILED"),
];

/// In one transaction: for each kind a key with a good event before and behind the poison, and others all around.
fn emit_all() -> String {
    let mut sql = "BEGIN;".to_owned();
    for (kind, arguments, _) in POISON {
        let good = format!("SELECT outbox.emit('t', '1'::jsonb, aggregate_type => 'kind', aggregate_id => '{kind}');");
        let poison = format!(
            "SELECT outbox.emit({arguments}, event_type => '{kind}', aggregate_type => 'kind', aggregate_id => '{kind}');"
        );
        let others = "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'other', aggregate_id => (i % 7)::text)
                      FROM generate_series(1, 100) i;";
        sql += &format!("{others}{good}{poison}{good}{others}");
    }
    sql + "COMMIT"
}

#[tokio::test]
async fn each_kind_of_poison_fails_alone_between_good_events_of_its_key_and_of_others() {
    let (postgres, rabbitmq) =
        tokio::join!(Postgres::shared(), RabbitMq::private().set("max_message_size", LIMIT).start());
    let stack = Stack::on(postgres, &rabbitmq).await;
    let consumer = stack.consumer("t").await;
    let relay = stack.relay().start().await;
    stack.db.batch_execute(&emit_all()).await.unwrap();
    wait_until_none_is_pending(&stack.db, "true").await;
    assert!(relay.stop().await.success());
    // And once more for a relay that finds all of it in the table.
    stack.db.batch_execute(&emit_all()).await.unwrap();
    let _relay = stack.relay().start().await;
    wait_until_none_is_pending(&stack.db, "true").await;

    for (kind, _, reason) in POISON {
        let sql =
            "SELECT status::text || ' ' || attempts || ' ' || left(coalesce(last_error, ''), $2) FROM outbox.events
                   WHERE event_type = $1";
        let rows = stack.db.query(sql, &[&kind, &(reason.len() as i32)]).await.unwrap();
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let expected = format!("FAILED 1 {reason}");
        assert_eq!(rows, [expected.as_str(), expected.as_str()], "{kind}");
    }
    let good = 2 * POISON.len() as i64 * 202;
    assert_eq!(count(&stack.db, "event_type IS NULL AND status = 'SENT' AND attempts = 1").await, good);
    consumer.wait_for_events(good as usize, LONG).await;
    // Each closed channel leaves what was in flight with it unanswered: `in_flight` is 1000 by default.
    let unanswered = 2 * POISON.len() * 1000;
    ledger::check(&stack.db, &[&consumer.ids()], unanswered).await;
}
