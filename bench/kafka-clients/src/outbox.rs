//! The relay's own producer.

use std::{sync::Arc, time::Duration};

use kafka_producer::{ConfirmKind, News, ProduceConfig, Producer};

use crate::{BATCH, IN_FLIGHT, Work, sample::Sample};

/// Returns how many records were taken.
pub(crate) async fn publish(work: &Work) -> u64 {
    let config = ProduceConfig {
        url: format!("kafka://{}", work.brokers).parse().expect("addresses of brokers"),
        client_id: "bench".to_owned(),
        read_back: 0,
        compression: kafka_producer::Compression::None,
        keeps_order: true,
        confirm_timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(30),
    };
    let mut producer = Producer::connect(config).await.unwrap_or_else(|e| panic!("cannot publish: {e}"));
    let (topic, body) = (Arc::from(&*work.topic), Arc::from(&*work.body));
    let (mut published, mut confirmed, mut taken) = (0, 0, 0);
    while confirmed < work.records {
        while published < work.records && published - confirmed + BATCH <= IN_FLIGHT {
            let next = (published + BATCH).min(work.records);
            producer.publish((published..next).map(|number| Sample::new(number, &topic, &body)).collect());
            published = next;
        }
        match producer.next().await {
            News::Confirms(confirms) => {
                confirmed += confirms.len() as u64;
                taken += confirms.iter().filter(|confirm| confirm.kind == ConfirmKind::Taken).count() as u64;
            }
            News::Read(_) => {} // nothing was asked for
            News::Lost(error) => panic!("the producer has ended: {error}"),
        }
    }
    taken
}
