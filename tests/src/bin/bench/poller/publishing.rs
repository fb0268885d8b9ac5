//! The poller's side of the broker, by the client library that Rust programs use.

use std::time::SystemTime;

use futures_util::future::try_join_all;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use tokio_postgres::Row;
use uuid::Uuid;

/// A channel in confirm mode.
pub(super) struct Publisher {
    channel: Channel,
    _connection: Connection,
}

impl Publisher {
    pub(super) async fn open(url: &str) -> Self {
        Self::try_open(url).await.unwrap_or_else(|e| panic!("the poller cannot publish: {e}"))
    }

    async fn try_open(url: &str) -> lapin::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { channel, _connection: connection })
    }

    /// Publishes all rows, then waits until the broker has confirmed every one.
    pub(super) async fn publish_all(&self, rows: &[Row]) {
        let published = try_join_all(rows.iter().map(|row| self.publish(row))).await;
        let confirms = try_join_all(published.unwrap_or_else(|e| panic!("the poller cannot publish: {e}"))).await;
        for confirm in confirms.unwrap_or_else(|e| panic!("the poller has got no confirm: {e}")) {
            assert!(matches!(confirm, Confirmation::Ack(None)), "not accepted and routed: {confirm:?}");
        }
    }

    async fn publish(&self, row: &Row) -> lapin::Result<PublisherConfirm> {
        let (topic, payload): (&str, &str) = (row.get("topic"), row.get("payload"));
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        self.channel.basic_publish("outbox".into(), topic.into(), options, payload.as_bytes(), properties(row)).await
    }
}

/// What our relay sends too.
fn properties(row: &Row) -> BasicProperties {
    const PERSISTENT: u8 = 2;
    let id: Uuid = row.get("id");
    let created_at: SystemTime = row.get("created_at");
    let created_at = created_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut headers = FieldTable::default();
    for header in ["aggregate_type", "aggregate_id"] {
        headers.insert(header.into(), AMQPValue::LongString(row.get::<_, &str>(header).into()));
    }
    BasicProperties::default()
        .with_message_id(id.to_string().into())
        .with_type(row.get::<_, &str>("event_type").into())
        .with_content_type("application/json".into())
        .with_timestamp(created_at.as_secs())
        .with_headers(headers)
        .with_delivery_mode(PERSISTENT)
}
