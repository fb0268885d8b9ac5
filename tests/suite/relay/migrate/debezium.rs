//! From Debezium's outbox table, with a real Debezium Server, to RabbitMQ.

use std::{path::PathBuf, time::Duration};

use harness::{Debezium, DebeziumSink, Delivery, SOON, Stack, eventually};

use super::{Inserts, numbers};
use crate::{documents::sql_under, not_run::not_run, relay::wait_for_counts};

/// What an application does; order and number are its parameters.
pub(super) const INSERT: &str = "INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload)
    VALUES (gen_random_uuid(), 'order', $1::bigint::text, 'moved',
            jsonb_build_object('order', $1::bigint, 'n', $2::bigint))";

/// Debezium Server's folder, which `make migrate` fetches. `None`, and the reason in a file for scripts/not-run, where
/// there is none.
pub(super) fn home() -> Option<PathBuf> {
    let home = Debezium::home();
    if home.is_none() {
        not_run("migrate", "Debezium Server is not there; make migrate fetches it");
    }
    home
}

#[tokio::test]
async fn debeziums_table_is_taken_over_while_applications_insert_and_nothing_is_lost_doubled_or_out_of_order() {
    let Some(home) = home() else { return };
    let stack = Stack::new().await;
    let blocks = sql_under("docs/migrate.md", "## From Debezium's outbox table");
    let [table, switch, ..] = &blocks[..] else { panic!("{blocks:?}") };
    stack.db.batch_execute(table).await.unwrap();
    stack.vhost.exchange("outbox").await;
    let consumer = stack.consumer("outbox.event.order").await;
    let debezium = Debezium::start(&home, &stack.db, DebeziumSink::RabbitMq(&stack.vhost), &[]).await;
    let inserts = Inserts::start(&stack.db, INSERT).await;
    inserts.wait_for_more().await;
    eventually(
        "Debezium delivers",
        SOON,
        async || {
            if consumer.count() > 50 { Ok(()) } else { Err(debezium.last_words()) }
        },
    )
    .await;

    let switched = stack.consumer("outbox.event.switch").await;
    stack.db.batch_execute(switch).await.unwrap();
    inserts.wait_for_more().await;
    switched.wait_for_within(1, Duration::from_secs(60)).await;
    let drop_slot = format!("SELECT pg_drop_replication_slot('{}')", debezium.slot());
    drop(debezium);
    let _relay = stack.relay().start().await;

    let inserted = inserts.stop().await;
    consumer.wait_for(inserted.values().map(Vec::len).sum()).await;
    let taken_over = stack.db.query_one("SELECT count(*) FROM outbox.events", &[]).await.unwrap().get(0);
    wait_for_counts(&stack.db, (0, taken_over, 0), SOON).await;
    let deliveries = consumer.deliveries();
    assert_eq!(numbers(deliveries.iter().map(Delivery::json)), inserted);
    // The table at the document's end.
    let (first, last) = (deliveries.first().unwrap(), deliveries.last().unwrap());
    assert!(first.text_header("id").is_some() && first.properties.message_id().is_none(), "{first:?}");
    assert!(first.key().is_none() && last.key().is_some_and(|(of, _)| of == "order"), "{last:?}");
    let is_known = "SELECT count(*) FROM outbox.events WHERE id = $1 AND status = 'SENT'";
    assert_eq!(stack.db.query_one(is_known, &[&last.id]).await.unwrap().get::<_, i64>(0), 1, "{last:?}");
    eventually("Debezium's slot can be dropped", SOON, async || {
        stack.db.batch_execute(&drop_slot).await.map_err(|error| error.to_string())
    })
    .await;
}
