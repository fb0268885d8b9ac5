//! Step 2: an event shares its transaction's fate.

use std::time::{Instant, SystemTime};

use crate::{demo::Demo, load::order, rows};

/// One order rolled back, one committed.
pub(crate) async fn show(demo: &mut Demo) {
    demo.screen.step("A business row and its event in one transaction");

    // First the one that is rolled back: were it published, it would arrive before the other.
    demo.screen.does("BEGIN; INSERT INTO orders …; SELECT outbox.emit('orders.created', …); ROLLBACK");
    let transaction = demo.shop.transaction().await.expect("BEGIN");
    let undone = order(&transaction, 1).await;
    transaction.rollback().await.expect("ROLLBACK");

    demo.screen.does("BEGIN; INSERT INTO orders …; SELECT outbox.emit('orders.created', …); COMMIT");
    let transaction = demo.shop.transaction().await.expect("BEGIN");
    let id = order(&transaction, 2).await;
    let (commit, commit_at) = (Instant::now(), SystemTime::now());
    transaction.commit().await.expect("COMMIT");
    let committed = commit.elapsed();
    rows::wait_for_status(&demo.db, id, "SENT").await;
    let sent = commit.elapsed();
    let deliveries = demo.broker.wait_for(1).await;

    let ids: Vec<_> = deliveries.iter().map(|delivery| delivery.id).collect();
    demo.screen.timed("committed", "the client has the answer to COMMIT", committed);
    if let Some(delivery) = deliveries.first() {
        let text = format!("{} {}", delivery.destination, String::from_utf8_lossy(&delivery.body));
        demo.screen.timed("delivered", &text, delivery.since(commit_at));
    }
    demo.screen.timed("SENT", "the broker's confirm is in the row", sent);
    rows::show(&demo.screen, &demo.db, id).await;

    let promise =
        format!("the committed event arrived, with the row's id as {}; nothing else did", demo.broker.words().id);
    demo.screen.promise(&promise, ids, vec![id]);
    let query = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox.events)";
    let left: i64 = demo.db.query_one(query, &[]).await.expect("a count").get(0);
    demo.screen.promise("of the one rolled back nothing is left: one order, one event", left, 2);
    demo.committed.push(id);
    demo.rolled_back.push(undone);
}
