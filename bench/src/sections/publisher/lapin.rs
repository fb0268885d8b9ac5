//! lapin, used well: the futures of a batch are polled together, so that their frames share writes, and confirms are
//! awaited a batch at a time while later batches are in flight.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};

use super::{BATCH, EXCHANGE, IN_FLIGHT, Routing, Verdicts};
use crate::{broker::id_of, load::Payload};

/// Publishes `messages`, numbered from 0, and waits for the last confirm.
pub(super) async fn publish(url: &str, routing: Routing, messages: u64) -> Verdicts {
    try_publish(url, routing, messages).await.unwrap_or_else(|e| panic!("lapin cannot publish: {e}"))
}

async fn try_publish(url: &str, routing: Routing, messages: u64) -> lapin::Result<Verdicts> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let body = vec![b'x'; Payload::B200.bytes()];
    let mut verdicts = Verdicts::default();
    let mut in_flight: VecDeque<Vec<PublisherConfirm>> = VecDeque::new();
    let (mut published, mut confirmed) = (0, 0);
    while confirmed < messages {
        if published < messages && published - confirmed < IN_FLIGHT {
            let batch = (published..published + BATCH).map(|number| publish_one(&channel, routing, number, &body));
            in_flight.push_back(try_join_all(batch).await?);
            published += BATCH;
            continue;
        }
        let oldest = in_flight.pop_front().expect("something is in flight");
        for (number, confirmation) in (confirmed..).zip(try_join_all(oldest).await?) {
            take(&mut verdicts, routing, number, confirmation);
        }
        confirmed += BATCH;
    }
    connection.close(200, "done".into()).await?;
    Ok(verdicts)
}

async fn publish_one(channel: &Channel, routing: Routing, number: u64, body: &[u8]) -> lapin::Result<PublisherConfirm> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    channel.basic_publish(EXCHANGE.into(), routing.key(number).into(), options, body, properties(number)).await
}

/// What our relay sends too.
fn properties(number: u64) -> BasicProperties {
    const PERSISTENT: u8 = 2;
    let mut headers = FieldTable::default();
    headers.insert("x-outbox-seq".into(), AMQPValue::LongLongInt(number.cast_signed()));
    for (header, value) in [("aggregate_type", "order"), ("aggregate_id", "12345")] {
        headers.insert(header.into(), AMQPValue::LongString(value.into()));
    }
    BasicProperties::default()
        .with_message_id(id_of(number).to_string().into())
        .with_type("OrderMoved".into())
        .with_content_type("application/json".into())
        .with_timestamp(1_800_000_000)
        .with_app_id("outbox-relay".into())
        .with_headers(headers)
        .with_delivery_mode(PERSISTENT)
}

/// What lapin says of message `number`.
fn take(verdicts: &mut Verdicts, routing: Routing, number: u64, confirmation: Confirmation) {
    assert!(confirmation.is_ack(), "message {number}: {confirmation:?}");
    match confirmation.take_message() {
        None => verdicts.delivered(routing.is_routed(number)),
        Some(message) => {
            let id = message.delivery.properties.message_id().as_ref().and_then(|id| id.as_str().parse().ok());
            verdicts.returned(id != Some(id_of(number)));
        }
    }
}
