//! Step 6: the relay is killed while events flow.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use harness::{SOON, eventually};
use uuid::Uuid;

use crate::{
    burst::out_of_order,
    demo::Demo,
    load::{self, Load},
    rows,
    screen::count,
};

const LOAD: Load = Load { clients: 4, transactions: 400, first_order: 20_000 };

/// Kills the relay in the middle of a burst and starts another.
pub(crate) async fn show(demo: &mut Demo) {
    demo.screen.step("The relay is killed in the middle of a burst");
    let before = demo.broker.count();
    let quarter = LOAD.events() / 4;
    let clients = load::start(&demo.db, &LOAD).await;
    eventually("a quarter of the burst has arrived", SOON, async || {
        let arrived = demo.broker.count() - before;
        if arrived >= quarter { Ok(()) } else { Err(arrived) }
    })
    .await;
    demo.record_memory();
    demo.screen.does(&format!("kill -9 {}", demo.relay.pid()));
    demo.relay.kill().await;
    let killed = Instant::now();
    let settled = sent_ids(demo).await;

    // The application goes on, and does not notice.
    let emitted = load::finish(clients).await;
    demo.record(&emitted);
    let pending = rows::count_with_status(&demo.db, "PENDING").await;
    let ids: Vec<Uuid> = emitted.committed.iter().map(|(id, _)| *id).collect();
    let text = format!("{} events, {} of them still PENDING", count(ids.len()), count(pending));
    demo.screen.timed("committed", &text, killed.elapsed());

    let begin = Instant::now();
    demo.relay = demo.broker.relay(&demo.db).start().await;
    demo.screen.timed("the next relay", &format!("streaming; process {}", demo.relay.pid()), begin.elapsed());
    let deliveries = demo.broker.wait_for_ids(&ids, Duration::from_secs(60)).await;
    demo.screen.timed("delivered", "all of them", begin.elapsed());
    rows::wait_for_sent(&demo.db, demo.committed.len(), SOON).await;
    demo.screen.timed("SENT", "all rows", begin.elapsed());

    let deliveries = deliveries.get(before..).unwrap_or_default();
    let mut seen = HashSet::new();
    let repeated: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.id).filter(|id| !seen.insert(*id)).collect();
    let wanted: HashSet<Uuid> = ids.into_iter().collect();
    demo.screen.promise("it was the middle: events were pending when the relay was gone", pending > 0, true);
    demo.screen.promise("nothing is lost, nothing is invented: the same ids", seen == wanted, true);
    let twice = match repeated.len() {
        0 => "none".to_owned(),
        more => format!("{} events: on their way when the relay was killed", count(more)),
    };
    demo.screen.fact("delivered twice", &twice);
    let needlessly = repeated.iter().filter(|id| settled.contains(id)).count();
    demo.screen.promise("no event that was SENT when the relay was killed came again", needlessly, 0);
    demo.screen.promise("each order's events arrived in order", out_of_order(deliveries), 0);
}

async fn sent_ids(demo: &Demo) -> HashSet<Uuid> {
    let query = "SELECT id FROM outbox.events WHERE status = 'SENT'";
    let rows = demo.db.query(query, &[]).await.unwrap_or_else(|e| panic!("{e:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}
