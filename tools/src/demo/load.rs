//! Clients that take orders.

use std::time::SystemTime;

use harness::Database;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

/// How many clients do how much, at the same time.
pub(crate) struct Load {
    /// Connections.
    pub(crate) clients: i64,
    /// Transactions of each client: one order and its events, [`EVENTS`] in number.
    pub(crate) transactions: i64,
    /// Number of the first order; each has one of its own.
    pub(crate) first_order: i64,
}

impl Load {
    /// Calls of `emit()`; those that are rolled back included.
    pub(crate) fn events(&self) -> usize {
        usize::try_from(self.clients * self.transactions * EVENTS).expect("a load is not negative")
    }
}

/// Events of one order.
pub(crate) const EVENTS: i64 = 3;

/// One transaction in this many is rolled back.
const ROLLBACK_EVERY: i64 = 10;

/// What became of a load's events.
#[derive(Default)]
pub(crate) struct Emitted {
    /// Ids, and when the COMMIT was sent.
    pub(crate) committed: Vec<(Uuid, SystemTime)>,
    /// Ids of events that do not exist.
    pub(crate) rolled_back: Vec<Uuid>,
}

/// Inserts an order and emits its first event.
pub(crate) async fn order(transaction: &Transaction<'_>, number: i64) -> Uuid {
    let cents = number * 100 + 99;
    transaction
        .execute("INSERT INTO orders (id, cents) VALUES ($1, $2)", &[&number, &cents])
        .await
        .unwrap_or_else(|e| panic!("INSERT: {e:?}"));
    let emit = "SELECT outbox.emit('orders.created', jsonb_build_object('order', $1::bigint, 'cents', $2::bigint),
                                   aggregate_type => 'order', aggregate_id => $1::text)";
    transaction.query_one(emit, &[&number, &cents]).await.unwrap_or_else(|e| panic!("emit: {e:?}")).get(0)
}

/// The clients, each in a task of its own; joining all of them is [`finish`].
pub(crate) async fn start(db: &Database, load: &Load) -> JoinSet<Emitted> {
    let mut clients = JoinSet::new();
    for client in 0..load.clients {
        let mut session = db.connect_as("shop").await;
        let first = load.first_order + client * load.transactions;
        let orders = first..first + load.transactions;
        clients.spawn(async move { take_orders(&mut session, orders).await });
    }
    clients
}

/// Waits for the clients' ends.
pub(crate) async fn finish(clients: JoinSet<Emitted>) -> Emitted {
    clients.join_all().await.into_iter().fold(Emitted::default(), |mut all, one| {
        all.committed.extend(one.committed);
        all.rolled_back.extend(one.rolled_back);
        all
    })
}

async fn take_orders(session: &mut Client, orders: impl Iterator<Item = i64>) -> Emitted {
    let insert = session.prepare("INSERT INTO orders (id, cents) VALUES ($1, $2)").await.expect("INSERT");
    let emit = "SELECT outbox.emit('orders.' || topic, jsonb_build_object('order', $1::bigint),
                                   aggregate_type => 'order', aggregate_id => $1::text)
                FROM unnest(ARRAY['created', 'paid', 'shipped']) AS topic";
    let emit = session.prepare(emit).await.expect("emit");
    let mut emitted = Emitted::default();
    for number in orders {
        let transaction = session.transaction().await.expect("BEGIN");
        transaction.execute(&insert, &[&number, &(number * 100)]).await.unwrap_or_else(|e| panic!("INSERT: {e:?}"));
        let rows = transaction.query(&emit, &[&number]).await.unwrap_or_else(|e| panic!("emit: {e:?}"));
        let ids = rows.iter().map(|row| row.get(0));
        if number % ROLLBACK_EVERY == 0 {
            emitted.rolled_back.extend(ids);
            transaction.rollback().await.expect("ROLLBACK");
        } else {
            let commit_at = SystemTime::now();
            emitted.committed.extend(ids.map(|id| (id, commit_at)));
            transaction.commit().await.expect("COMMIT");
        }
    }
    emitted
}
