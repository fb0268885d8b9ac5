//! The relay's own publisher.

use amqp_publisher::{Confirm, ConfirmKind, News, Publisher};
use bytes::Bytes;

use super::{BATCH, EXCHANGE, IN_FLIGHT, Routing, Verdicts};
use crate::{
    broker::{Sample, number_of, publish_config},
    load::Payload,
};

/// Publishes `messages`, numbered from 0, and waits for the last confirm.
pub(super) async fn publish(url: &str, routing: Routing, messages: u64) -> Verdicts {
    let config = publish_config(url, EXCHANGE, IN_FLIGHT);
    let mut publisher = Publisher::connect(config).await.unwrap_or_else(|e| panic!("cannot publish: {e}"));
    let body = Bytes::from(vec![b'x'; Payload::B200.bytes()]);
    let message = |number| Sample { number, routing_key: routing.key(number), body: body.clone(), key_headers: true };
    let mut verdicts = Verdicts::default();
    let (mut published, mut confirmed) = (0, 0);
    while confirmed < messages {
        while published < messages && published - confirmed + BATCH <= IN_FLIGHT {
            publisher.publish((published..published + BATCH).map(message).collect());
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

/// What the publisher says of one message.
fn take(verdicts: &mut Verdicts, routing: Routing, confirm: &Confirm) {
    let is_routed = routing.is_routed(number_of(confirm.id));
    match confirm.kind {
        ConfirmKind::Acked => verdicts.delivered(is_routed),
        ConfirmKind::Returned { .. } => verdicts.returned(is_routed),
        ConfirmKind::Nacked | ConfirmKind::Closed { .. } => panic!("neither acked nor returned: {confirm:?}"),
    }
}
