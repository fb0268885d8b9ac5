//! Places an order and emits an event about it, in sqlx's transaction. A second one is rolled back. sqlx.

use std::env;

use serde_json::json;
use sqlx::{
    Connection, PgConnection, query_scalar,
    types::{Json, Uuid},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> sqlx::Result<()> {
    let url = env::var("DATABASE_URL").expect("DATABASE_URL");
    let mut connection = PgConnection::connect(&url).await?;

    let mut transaction = connection.begin().await?;
    let event = place_order(&mut transaction, "Ada", "42.50").await?;
    transaction.commit().await?;
    println!("{event}");

    let mut transaction = connection.begin().await?;
    place_order(&mut transaction, "Bob", "13.00").await?;
    transaction.rollback().await // so would dropping it without a commit
}

async fn place_order(transaction: &mut PgConnection, customer: &str, total: &str) -> sqlx::Result<Uuid> {
    let order: i64 = query_scalar("INSERT INTO orders (customer, total) VALUES ($1, $2::text::numeric) RETURNING id")
        .bind(customer)
        .bind(total)
        .fetch_one(&mut *transaction)
        .await?;
    query_scalar("SELECT outbox.emit('orders.created', $1, aggregate_type => 'order', aggregate_id => $2)")
        .bind(Json(json!({ "id": order, "customer": customer, "total": total })))
        .bind(order.to_string())
        .fetch_one(transaction)
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sqlx::query_as;

    use super::*;

    /// The role of `DATABASE_URL` may read events here: `outbox.grant_operate()`.
    #[tokio::test]
    async fn a_placed_order_is_emitted() -> sqlx::Result<()> {
        let url = env::var("DATABASE_URL").expect("DATABASE_URL");
        let mut connection = PgConnection::connect(&url).await?;
        let mut transaction = connection.begin().await?; // it is never committed: no relay ever sees the event

        let id = place_order(&mut transaction, "Eve", "7.00").await?;

        // created_at is the start of the transaction: these are the events of this one.
        let emitted =
            "SELECT id, topic, aggregate_type, aggregate_id, payload FROM outbox.events WHERE created_at = now()";
        let emitted: Vec<(Uuid, String, String, String, Json<Value>)> =
            query_as(emitted).fetch_all(&mut *transaction).await?;
        let order: i64 =
            query_scalar("SELECT id FROM orders WHERE customer = 'Eve'").fetch_one(&mut *transaction).await?;
        let payload = json!({ "id": order, "customer": "Eve", "total": "7.00" });
        let wanted = (id, "orders.created".to_owned(), "order".to_owned(), order.to_string(), Json(payload));
        assert_eq!(emitted, [wanted]);
        Ok(())
    }
}
