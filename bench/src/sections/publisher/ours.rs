//! The relay's own publisher.

use amqp_publisher::{Answer, Notice, Publisher, Verdict};
use bytes::Bytes;

use super::{BATCH, EXCHANGE, IN_FLIGHT, Routing, Verdicts};
use crate::{
    broker::{Sample, number_of, publish_config},
    load::Payload,
};

/// Publishes `messages`, numbered from 0, and waits for the last answer.
pub(super) async fn publish(url: &str, routing: Routing, messages: u64) -> Verdicts {
    let config = publish_config(url, EXCHANGE, IN_FLIGHT);
    let mut publisher = Publisher::connect(config).await.unwrap_or_else(|e| panic!("cannot publish: {e}"));
    let body = Bytes::from(vec![b'x'; Payload::B200.bytes()]);
    let message = |number| Sample { number, routing_key: routing.key(number), body: body.clone(), key_headers: true };
    let mut verdicts = Verdicts::default();
    let (mut published, mut answered) = (0, 0);
    while answered < messages {
        while published < messages && published - answered + BATCH <= IN_FLIGHT {
            publisher.publish((published..published + BATCH).map(message).collect());
            published += BATCH;
        }
        match publisher.next().await {
            Notice::Answers(answers) => {
                answered += answers.len() as u64;
                answers.iter().for_each(|answer| take(&mut verdicts, routing, answer));
            }
            news => panic!("not an answer: {news:?}"),
        }
    }
    publisher.close().await;
    verdicts
}

/// What the publisher says of one message.
fn take(verdicts: &mut Verdicts, routing: Routing, answer: &Answer) {
    let is_routed = routing.is_routed(number_of(answer.id));
    match answer.verdict {
        Verdict::Confirmed => verdicts.delivered(is_routed),
        Verdict::Returned { .. } => verdicts.returned(is_routed),
        Verdict::Nacked | Verdict::Refused { .. } => panic!("neither confirmed nor returned: {answer:?}"),
    }
}
