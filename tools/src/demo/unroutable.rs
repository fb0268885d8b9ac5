//! Steps 4 and 5: an event whose destination is not there, and its replay.

use std::time::Instant;

use uuid::Uuid;

use crate::{demo::Demo, rows};

/// Emits an event that nobody listens to; returns its id.
pub(crate) async fn show(demo: &mut Demo) -> Uuid {
    let words = demo.broker.words();
    demo.screen.step(words.unroutable);
    demo.screen.does(words.emit);
    let begin = Instant::now();
    let id: Uuid = demo.shop.query_one(words.emit, &[]).await.unwrap_or_else(|e| panic!("emit: {e:?}")).get(0);
    rows::wait_for_status(&demo.db, id, "FAILED").await;
    demo.screen.timed("FAILED", words.why, begin.elapsed());
    rows::show(&demo.screen, &demo.db, id).await;
    demo.committed.push(id);

    let query = "SELECT last_error LIKE $2 || '%' FROM outbox.failed WHERE id = $1";
    let said: bool = demo.db.query_one(query, &[&id, &words.error]).await.expect("it stands in outbox.failed").get(0);
    demo.screen.promise("the row has the broker's code and text", said, true);
    demo.screen.promise("the consumer has not got it", demo.broker.ids().contains(&id), false);
    id
}

/// Has the event's destination made, and replays the event.
pub(crate) async fn show_replay(demo: &mut Demo, id: Uuid) {
    let words = demo.broker.words();
    demo.screen.step(words.mended);
    demo.broker.mend().await;
    demo.screen.does(words.mend);
    demo.screen.does(&format!("SELECT outbox.replay('{id}')"));
    let begin = Instant::now();
    let db = &demo.db;
    let found: bool = db.query_one("SELECT outbox.replay($1)", &[&id]).await.unwrap_or_else(|e| panic!("{e:?}")).get(0);
    rows::wait_for_status(db, id, "SENT").await;
    demo.screen.timed("SENT", "after outbox.replay", begin.elapsed());
    demo.broker.wait_for_ids(&[id], harness::SOON).await;
    rows::show(&demo.screen, db, id).await;

    demo.screen.promise("there was such an event", found, true);
    let times = demo.broker.ids().iter().filter(|arrived| **arrived == id).count();
    demo.screen.promise("it arrived once, with the id it always had", times, 1);
}
