//! The application: it takes orders all night.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::Connection;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use uuid::Uuid;

/// Orders that are open at a time. Each is a key.
const ORDERS: i64 = 50;

/// An application that emits events until it is dropped.
pub(crate) struct Orders {
    committed: Arc<Mutex<Vec<Uuid>>>,
    task: JoinHandle<()>,
}

impl Orders {
    /// Emits an event each of these topics, ten times a second, in the session of role `shop`.
    pub(crate) fn take(session: Connection, topics: &'static [&'static str]) -> Self {
        let committed = Arc::<Mutex<Vec<Uuid>>>::default();
        let shared = Arc::clone(&committed);
        let task = tokio::spawn(async move {
            let emit = "SELECT outbox.emit(topic, jsonb_build_object('order', $1::bigint),
                               aggregate_type => split_part(topic, '.', 1), aggregate_id => $1::text)
                        FROM unnest($2::text[]) AS topic";
            let emit = session.prepare(emit).await.expect("emit");
            let mut tick = interval(Duration::from_millis(100));
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for number in 0.. {
                tick.tick().await;
                let rows = session
                    .query(&emit, &[&(4700 + number % ORDERS), &topics])
                    .await
                    .expect("the application can emit");
                shared.lock().expect("no panic while locked").extend(rows.iter().map(|row| row.get::<_, Uuid>(0)));
            }
        });
        Self { committed, task }
    }

    /// Takes no more; returns the ids of all events.
    pub(crate) fn close(self) -> Vec<Uuid> {
        self.task.abort();
        self.committed.lock().expect("no panic while locked").clone()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.task.abort();
    }
}
