//! What the relay makes of an event.

use std::sync::Arc;

use amqp_publisher::{Confirm, ConfirmKind, News};
use harness::{RabbitMq, SOON};
use lapin::types::AMQPValue;
use outbox_core::{Destination, Event, Text};
use outbox_service::sink::rabbitmq::{Outbound, Publisher};
use tokio::time::timeout;
use uuid::Uuid;

use super::config;

#[tokio::test]
async fn everything_an_event_has_arrives_where_the_mapping_says() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = Publisher::connect(config(&vhost.url())).await.unwrap();
    let headers = r#"{"traceparent":"00-ab","n":-5,"x":0.5,"yes":true,"none":null,"list":[1,"a"],"map":{"k":"v"},
                      "aggregate_id":"mine","x-outbox-seq":7,"x-outbox-replay":7}"#;
    let event = Event {
        id: Uuid::new_v4(),
        seq: 42,
        destination: Destination { exchange: None, topic: Text::from_static("orders.created") },
        event_type: Some(Text::from_static("OrderCreated")),
        aggregate_type: Some(Text::from_static("order")),
        aggregate_id: Some(Text::from_static("7")),
        headers: Some(headers.into()),
        correlation_id: Some(Text::from_static("cause")),
        body: Ok(r#"{"total":1}"#.into()),
        content_type: Text::from_static("application/json"),
        created_at_us: 1_700_000_000_123_456,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    };
    let replayed = Event { replays: 3, ..event.clone() };

    publisher.publish(vec![Outbound::new(Arc::new(event.clone()))]);

    let News::Confirms(confirms) = timeout(SOON, publisher.next()).await.unwrap() else { panic!("no confirm") };
    assert_eq!(confirms, [Confirm { id: event.id, kind: ConfirmKind::Acked }]);
    let got = consumer.wait_for(1).await.remove(0);
    assert_eq!(got.id, event.id);
    assert_eq!((got.exchange.as_str(), got.routing_key.as_str()), ("outbox", "orders.created"));
    assert_eq!(got.body, br#"{"total":1}"#);
    let text = |property: &Option<lapin::types::ShortString>| property.as_ref().map(ToString::to_string);
    let properties = &got.properties;
    assert_eq!(text(properties.message_id()), Some(event.id.to_string()));
    assert_eq!(text(properties.content_type()), Some("application/json".to_owned()));
    assert_eq!(text(properties.kind()), Some("OrderCreated".to_owned()));
    assert_eq!(text(properties.correlation_id()), Some("cause".to_owned()));
    assert_eq!(text(properties.app_id()), Some("suite".to_owned()));
    assert_eq!(properties.timestamp(), &Some(1_700_000_000));
    assert_eq!(properties.delivery_mode(), &Some(2));
    assert_eq!((got.seq(), got.key()), (Some(42), Some(("order".to_owned(), "7".to_owned()))));
    assert_eq!(got.text_header("traceparent"), Some("00-ab".to_owned()));
    assert_eq!(got.header("n"), Some(&AMQPValue::LongLongInt(-5)));
    assert_eq!(got.header("x"), Some(&AMQPValue::Double(0.5)));
    assert_eq!(got.header("yes"), Some(&AMQPValue::Boolean(true)));
    assert_eq!(got.header("none"), Some(&AMQPValue::Void));
    let Some(AMQPValue::FieldArray(list)) = got.header("list") else { panic!("{:?}", got.header("list")) };
    assert_eq!(list.as_slice(), [AMQPValue::LongLongInt(1), AMQPValue::LongString("a".into())]);
    let Some(AMQPValue::FieldTable(map)) = got.header("map") else { panic!("{:?}", got.header("map")) };
    assert_eq!(map.inner().get("k"), Some(&AMQPValue::LongString("v".into())));
    assert_eq!(got.header("x-outbox-replay"), None, "only the relay says that");

    publisher.publish(vec![Outbound::new(Arc::new(replayed))]);
    let got = consumer.wait_for(2).await.remove(1);
    assert_eq!(got.replay(), Some(3));
    assert_eq!(got.text_header("traceparent"), Some("00-ab".to_owned()));
    publisher.close().await;
}

#[tokio::test]
async fn an_event_that_cannot_be_sent_at_all_is_refused_with_the_reason() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let mut publisher = Publisher::connect(config(&vhost.url())).await.unwrap();
    let event = Event {
        id: Uuid::new_v4(),
        seq: 1,
        destination: Destination { exchange: None, topic: Text::from_static("a") },
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        headers: None,
        correlation_id: None,
        body: Err("it has no body".into()),
        content_type: Text::from_static("application/json"),
        created_at_us: 1,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    };
    publisher.publish(vec![Outbound::new(Arc::new(event.clone()))]);
    let News::Confirms(confirms) = timeout(SOON, publisher.next()).await.unwrap() else { panic!("no confirm") };
    let kind = ConfirmKind::Closed { code: 502, text: "it has no body".to_owned() };
    assert_eq!(confirms, [Confirm { id: event.id, kind }]);
}
