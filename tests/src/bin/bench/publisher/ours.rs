//! The relay's own publisher.

use std::{sync::Arc, time::Duration};

use amqp_publisher::{Confirm, ConfirmKind, ExchangeUse, News, PublishConfig};
use bytes::Bytes;
use outbox_core::{Event, Text};
use outbox_service::sink::rabbitmq::{Outbound, Publisher};
use uuid::Uuid;

use super::{BATCH, EXCHANGE, IN_FLIGHT, Routing, Verdicts};
use crate::load::Payload;

/// Publishes `messages`, numbered from 0, and waits for the last confirm.
pub(super) async fn publish(url: &str, routing: Routing, messages: u64) -> Verdicts {
    let config = PublishConfig {
        try_first: None,
        try_last: None,
        url: url.parse().expect("an AMQP URL"),
        exchange: EXCHANGE.to_owned(),
        exchange_use: ExchangeUse::Take,
        app_id: "outbox-relay".to_owned(),
        window: usize::try_from(IN_FLIGHT).expect("a small number"),
        side_channels: 0,
        confirm_timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(30),
        reopen_after: Duration::from_millis(5),
        prove: false,
        connection_name: "bench".to_owned(),
        product: "bench".to_owned(),
        version: String::new(),
    };
    let mut publisher = Publisher::connect(config).await.unwrap_or_else(|e| panic!("cannot publish: {e}"));
    let body = Bytes::from(vec![b'x'; Payload::B200.bytes()]);
    let mut verdicts = Verdicts::default();
    let (mut published, mut confirmed) = (0, 0);
    while confirmed < messages {
        while published < messages && published - confirmed + BATCH <= IN_FLIGHT {
            publisher.publish((published..published + BATCH).map(|number| message(routing, number, &body)).collect());
            published += BATCH;
        }
        match publisher.next().await {
            News::Confirms(confirms) => {
                confirmed += confirms.len() as u64;
                confirms.iter().for_each(|confirm| take(&mut verdicts, routing, confirm));
            }
            news => panic!("not a confirm: {news:?}"),
        }
    }
    publisher.close().await;
    verdicts
}

fn message(routing: Routing, number: u64, body: &Bytes) -> Outbound {
    Outbound::new(Arc::new(Event {
        id: Uuid::from_u64_pair(0, number),
        seq: number.cast_signed(),
        exchange: None,
        topic: Text::from_static(routing.key(number)),
        event_type: Some(Text::from_static("OrderMoved")),
        aggregate_type: Some(Text::from_static("order")),
        aggregate_id: Some(Text::from_static("12345")),
        body: Ok(body.clone()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 1_800_000_000_000_000,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    }))
}

/// What the publisher says of one message.
fn take(verdicts: &mut Verdicts, routing: Routing, confirm: &Confirm) {
    let is_routed = routing.is_routed(confirm.id.as_u64_pair().1);
    match confirm.kind {
        ConfirmKind::Acked => verdicts.delivered(is_routed),
        ConfirmKind::Returned { .. } => verdicts.returned(is_routed),
        ConfirmKind::Nacked | ConfirmKind::Closed { .. } => panic!("neither acked nor returned: {confirm:?}"),
    }
}
