//! Everything one end-to-end test needs.

use crate::{Consumer, ConsumerBuilder, Database, Postgres, RabbitMq, RelayBuilder, Vhost};

/// A database with the extension and a vhost, both of the test's own.
pub struct Stack {
    /// The database; derefs to a superuser's connection.
    pub db: Database,
    /// The vhost.
    pub vhost: Vhost,
}

impl Stack {
    /// On the shared servers.
    pub async fn new() -> Self {
        let (postgres, rabbitmq) = tokio::join!(Postgres::shared(), RabbitMq::shared());
        Self::on(postgres, rabbitmq).await
    }

    /// On servers of the test's own (either may be the shared one).
    pub async fn on(postgres: &Postgres, rabbitmq: &RabbitMq) -> Self {
        let (db, vhost) = tokio::join!(postgres.database(), rabbitmq.vhost());
        Self { db, vhost }
    }

    /// A relay between the two. Its slot has the database's name, because slots are the server's, not the database's.
    pub fn relay(&self) -> RelayBuilder {
        RelayBuilder::new()
            .set("database-url", self.db.url())
            .set("amqp-url", &self.vhost.url())
            .set("slot", self.db.name())
    }

    /// Consumes what is published to the relay's default exchange with a routing key that `binding` matches.
    pub async fn consumer(&self, binding: &str) -> Consumer {
        self.consumer_with(binding).start().await
    }

    /// The same, before it starts.
    pub fn consumer_with(&self, binding: &str) -> ConsumerBuilder {
        self.vhost.consumer("outbox", binding)
    }
}
