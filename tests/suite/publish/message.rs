//! What a message looks like.

use harness::RabbitMq;
use lapin::types::AMQPValue;
use relay::{
    event::{Event, Text},
    publish::Verdict,
};

use super::{WINDOW, connect, event, events, publish};

#[tokio::test]
async fn everything_an_event_has_arrives_where_the_mapping_says() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let headers = r#"{"traceparent":"00-ab","n":-5,"x":0.5,"yes":true,"none":null,"list":[1,"a"],"map":{"k":"v"},
                      "aggregate_id":"mine"}"#;
    let event = Event {
        seq: 42,
        event_type: Some(Text::from_static("OrderCreated")),
        aggregate_type: Some(Text::from_static("order")),
        aggregate_id: Some(Text::from_static("7")),
        headers: Some(headers.into()),
        correlation_id: Some(Text::from_static("cause")),
        body: Ok(r#"{"total":1}"#.into()),
        ..event("orders.created")
    };

    let verdicts = publish(&mut publisher, std::slice::from_ref(&event), 1).await;

    assert_eq!(verdicts[&event.id], Verdict::Confirmed);
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
    publisher.close().await;
}

#[tokio::test]
async fn a_large_body_arrives_whole_among_small_ones() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut events = events("a", 9);
    for (number, event) in events.iter_mut().enumerate().filter(|(number, _)| number % 2 == 1) {
        event.body = Ok((0..number * 1_000_000).map(|byte| byte as u8).collect::<Vec<_>>().into());
    }

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    assert!(verdicts.values().all(|verdict| *verdict == Verdict::Confirmed));
    for (delivery, event) in consumer.wait_for(9).await.iter().zip(&events) {
        assert_eq!(delivery.id, event.id);
        let body = event.body.as_ref().unwrap();
        assert!(delivery.body == *body, "{} bytes differ", body.len());
    }
}

#[tokio::test]
async fn an_event_that_is_no_amqp_message_is_refused_without_a_word_to_the_broker() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut events = events("a", 4);
    events[0].event_type = Some(Text::new("x".repeat(256).into()).unwrap());
    events[2].headers = Some(format!(r#"{{"a":"{}"}}"#, "x".repeat(200_000)).into());

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    let verdict = |place: usize| &verdicts[&events[place].id];
    assert!(matches!(verdict(0), Verdict::Refused { code: 502, .. }), "{:?}", verdict(0));
    assert!(matches!(verdict(2), Verdict::Refused { code: 311, .. }), "{:?}", verdict(2));
    assert_eq!((verdict(1), verdict(3)), (&Verdict::Confirmed, &Verdict::Confirmed));
    consumer.wait_for(2).await;
    assert_eq!(consumer.ids(), [events[1].id, events[3].id]);
}
