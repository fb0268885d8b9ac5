//! Steps 4 and 5: an event that no queue is bound for, and its replay.

use std::time::Instant;

use uuid::Uuid;

use crate::{demo::Demo, rows};

/// Emits an event that nobody is bound for; returns its id.
pub(crate) async fn show(demo: &mut Demo) -> Uuid {
    demo.screen.step("An event that nobody listens to");
    demo.screen.does(r#"SELECT outbox.emit('invoices.created', '{"invoice": 7}')"#);
    let emit = r#"SELECT outbox.emit('invoices.created', '{"invoice": 7}'::jsonb)"#;
    let begin = Instant::now();
    let id: Uuid = demo.shop.query_one(emit, &[]).await.unwrap_or_else(|e| panic!("emit: {e:?}")).get(0);
    rows::wait_for_status(&demo.stack.db, id, "FAILED").await;
    demo.screen.timed("FAILED", "the broker returned it: not lost, not taken for delivered", begin.elapsed());
    rows::show(&demo.screen, &demo.stack.db, id).await;
    demo.committed.push(id);

    let query = "SELECT last_error LIKE '%312%NO_ROUTE%' FROM outbox.failed WHERE id = $1";
    let said: bool = demo.stack.db.query_one(query, &[&id]).await.expect("it stands in outbox.failed").get(0);
    demo.screen.promise("the row has the broker's code and text", said, true);
    demo.screen.promise("the consumer has not got it", demo.consumer.ids().contains(&id), false);
    id
}

/// Binds the queue and replays the event.
pub(crate) async fn show_replay(demo: &mut Demo, id: Uuid) {
    demo.screen.step("The queue gets bound, the event is replayed");
    demo.consumer.bind("invoices.*").await;
    demo.screen.does("the consumer binds its queue by invoices.*");
    demo.screen.does(&format!("SELECT outbox.replay('{id}')"));
    let begin = Instant::now();
    let db = &demo.stack.db;
    let found: bool = db.query_one("SELECT outbox.replay($1)", &[&id]).await.unwrap_or_else(|e| panic!("{e:?}")).get(0);
    rows::wait_for_status(db, id, "SENT").await;
    demo.screen.timed("SENT", "after outbox.replay", begin.elapsed());
    demo.consumer.wait_for_ids(&[id], harness::SOON).await;
    rows::show(&demo.screen, db, id).await;

    demo.screen.promise("there was such an event", found, true);
    let times = demo.consumer.ids().iter().filter(|arrived| **arrived == id).count();
    demo.screen.promise("it arrived once, with the id it always had", times, 1);
}
