//! The publisher against real brokers: every event gets its own verdict, whatever happens to the others.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use harness::{RabbitMq, SOON, Vhost, eventually};
use lapin::types::AMQPValue;
use relay::{
    event::{Event, Text},
    publish::{Notice, PublishConfig, PublishError, Publisher, Verdict},
};
use tokio::{sync::OnceCell, time::timeout};
use uuid::Uuid;

const WINDOW: usize = 500;
const MAX_MESSAGE_BYTES: usize = 65_536;

/// A node that takes no large messages, for the tests that do not stop it.
async fn small_node() -> &'static RabbitMq {
    static NODE: OnceCell<RabbitMq> = OnceCell::const_new();
    let limit = MAX_MESSAGE_BYTES.to_string();
    NODE.get_or_init(async || RabbitMq::private().set("max_message_size", &limit).start().await)
        .await
}

fn config(url: &str) -> PublishConfig {
    PublishConfig {
        url: url.parse().unwrap(),
        exchange: "outbox".to_owned(),
        declare_exchange: true,
        app_id: "suite".to_owned(),
        window: WINDOW,
        confirm_timeout: SOON,
        connect_timeout: SOON,
        connection_name: "suite".to_owned(),
    }
}

async fn connect(url: &str) -> Publisher {
    Publisher::connect(config(url)).await.unwrap()
}

fn event(topic: &'static str) -> Event {
    Event {
        id: Uuid::new_v4(),
        seq: 1,
        exchange: None,
        topic: Text::from_static(topic),
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: "{}".into(),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 1_700_000_000_123_456,
        attempts: 0,
    }
}

fn events(topic: &'static str, count: usize) -> Vec<Event> {
    (0..count).map(|_| event(topic)).collect()
}

fn ids<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Uuid> {
    events.into_iter().map(|event| event.id).collect()
}

/// Publishes `events` with `window` in flight until each has its verdict.
async fn publish(publisher: &mut Publisher, events: &[Event], window: usize) -> HashMap<Uuid, Verdict> {
    let mut waiting: VecDeque<_> = events.iter().cloned().map(Arc::new).collect();
    let mut verdicts = HashMap::new();
    let mut in_flight = 0;
    while verdicts.len() < events.len() {
        let batch: Vec<_> = waiting.drain(..waiting.len().min(window - in_flight)).collect();
        in_flight += batch.len();
        publisher.publish(batch);
        for answer in answers(publisher).await {
            in_flight -= 1;
            let again = verdicts.insert(answer.id, answer.verdict);
            assert_eq!(again, None, "a second verdict for {}", answer.id);
        }
    }
    verdicts
}

async fn answers(publisher: &mut Publisher) -> Vec<relay::publish::Answer> {
    loop {
        match timeout(SOON, publisher.next()).await.expect("news from the broker") {
            Notice::Answers(answers) => return answers,
            Notice::Blocked { .. } | Notice::Unblocked => {} // another test's alarm
            Notice::Lost(error) => panic!("lost: {error:?}"),
        }
    }
}

async fn lost(publisher: &mut Publisher) -> PublishError {
    loop {
        if let Notice::Lost(error) = timeout(SOON, publisher.next()).await.expect("news from the broker") {
            return error;
        }
    }
}

fn returned() -> Verdict {
    Verdict::Returned {
        code: 312,
        text: "NO_ROUTE".to_owned(),
    }
}

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
        body: r#"{"total":1}"#.into(),
        ..event("orders.created")
    };

    let verdicts = publish(&mut publisher, std::slice::from_ref(&event), 1).await;

    assert_eq!(verdicts[&event.id], Verdict::Confirmed);
    let got = consumer.wait_for(1).await.remove(0);
    assert_eq!(got.id, event.id);
    assert_eq!(
        (got.exchange.as_str(), got.routing_key.as_str()),
        ("outbox", "orders.created")
    );
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
    assert_eq!(
        (got.seq(), got.key()),
        (Some(42), Some(("order".to_owned(), "7".to_owned())))
    );
    assert_eq!(got.text_header("traceparent"), Some("00-ab".to_owned()));
    assert_eq!(got.header("n"), Some(&AMQPValue::LongLongInt(-5)));
    assert_eq!(got.header("x"), Some(&AMQPValue::Double(0.5)));
    assert_eq!(got.header("yes"), Some(&AMQPValue::Boolean(true)));
    assert_eq!(got.header("none"), Some(&AMQPValue::Void));
    let Some(AMQPValue::FieldArray(list)) = got.header("list") else {
        panic!("{:?}", got.header("list"))
    };
    assert_eq!(
        list.as_slice(),
        [AMQPValue::LongLongInt(1), AMQPValue::LongString("a".into())]
    );
    let Some(AMQPValue::FieldTable(map)) = got.header("map") else {
        panic!("{:?}", got.header("map"))
    };
    assert_eq!(map.inner().get("k"), Some(&AMQPValue::LongString("v".into())));
    publisher.close().await;
}

#[tokio::test]
async fn with_every_second_message_unroutable_no_verdict_is_wrong() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "bound").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let events: Vec<_> = ["bound", "nobody"]
        .into_iter()
        .cycle()
        .take(10_000)
        .map(event)
        .collect();

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    let wrong = |event: &&Event| {
        let expected = if event.topic.as_str() == "bound" {
            Verdict::Confirmed
        } else {
            returned()
        };
        verdicts[&event.id] != expected
    };
    assert_eq!(events.iter().filter(wrong).count(), 0);
    consumer.wait_for(5_000).await;
    assert_eq!(
        consumer.ids(),
        ids(events.iter().step_by(2)),
        "each once, in the order of publishing"
    );
}

#[tokio::test]
async fn only_the_events_for_a_missing_exchange_are_refused() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut events = events("a", 1_000);
    let bad = [0, 17, 18, 400, 999];
    for place in bad {
        events[place].exchange = Some(Text::from_static("missing"));
    }

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    for (place, event) in events.iter().enumerate() {
        match &verdicts[&event.id] {
            Verdict::Refused { code: 404, text } if bad.contains(&place) => {
                assert!(text.contains("'missing'"), "{text}")
            }
            Verdict::Confirmed if !bad.contains(&place) => {}
            other => panic!("event {place}: {other:?}"),
        }
    }
    let good: Vec<_> = ids(&events)
        .into_iter()
        .filter(|id| verdicts[id] == Verdict::Confirmed)
        .collect();
    consumer.wait_for_ids(&good, SOON).await;
    let mut first_arrivals = consumer.ids();
    let mut seen = std::collections::HashSet::new();
    first_arrivals.retain(|id| seen.insert(*id));
    assert_eq!(first_arrivals, good, "in the order of publishing");
}

#[tokio::test]
async fn only_the_message_that_is_too_large_is_refused() {
    let vhost = small_node().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut events = events("a", 100);
    events[30].body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    events[31].body = vec![b'x'; MAX_MESSAGE_BYTES].into();

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    let refused: Vec<_> = ids(&events)
        .into_iter()
        .filter(|id| verdicts[id] != Verdict::Confirmed)
        .collect();
    assert_eq!(refused, [events[30].id]);
    assert!(
        matches!(&verdicts[&refused[0]], Verdict::Refused { code: 406, text } if text.contains("larger than")),
        "{verdicts:?}"
    );
    let good: Vec<_> = ids(&events).into_iter().filter(|id| !refused.contains(id)).collect();
    let deliveries = consumer.wait_for_ids(&good, SOON).await;
    let largest = deliveries.iter().find(|delivery| delivery.id == events[31].id).unwrap();
    assert_eq!(largest.body, events[31].body);
}

#[tokio::test]
async fn a_large_body_arrives_whole_among_small_ones() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut events = events("a", 9);
    for (number, event) in events.iter_mut().enumerate().filter(|(number, _)| number % 2 == 1) {
        event.body = (0..number * 1_000_000)
            .map(|byte| byte as u8)
            .collect::<Vec<_>>()
            .into();
    }

    let verdicts = publish(&mut publisher, &events, WINDOW).await;

    assert!(verdicts.values().all(|verdict| *verdict == Verdict::Confirmed));
    for (delivery, event) in consumer.wait_for(9).await.iter().zip(&events) {
        assert_eq!(delivery.id, event.id);
        assert!(delivery.body == event.body, "{} bytes differ", event.body.len());
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
    assert!(
        matches!(verdict(0), Verdict::Refused { code: 502, .. }),
        "{:?}",
        verdict(0)
    );
    assert!(
        matches!(verdict(2), Verdict::Refused { code: 311, .. }),
        "{:?}",
        verdict(2)
    );
    assert_eq!((verdict(1), verdict(3)), (&Verdict::Confirmed, &Verdict::Confirmed));
    consumer.wait_for(2).await;
    assert_eq!(consumer.ids(), [events[1].id, events[3].id]);
}

#[tokio::test]
async fn a_full_queue_that_rejects_gives_a_nack_to_each_message_it_refuses() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.exchange("outbox").await;
    let path = |kind: &str, rest: &str| format!("/api/{kind}/{}{rest}", vhost.name());
    let arguments =
        serde_json::json!({"durable": true, "arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}});
    vhost.api("PUT", &path("queues", "/full"), Some(&arguments)).await;
    let binding = serde_json::json!({"routing_key": "#"});
    vhost
        .api("POST", &path("bindings", "/e/outbox/q/full"), Some(&binding))
        .await;
    let mut publisher = connect(&vhost.url()).await;
    let events = events("a", 5);

    let verdicts: Vec<_> = {
        let verdicts = publish(&mut publisher, &events, 1).await;
        events.iter().map(|event| verdicts[&event.id].clone()).collect()
    };

    use Verdict::{Confirmed, Nacked};
    assert_eq!(verdicts, [Confirmed, Confirmed, Nacked, Nacked, Nacked]);
}

#[tokio::test]
async fn while_the_broker_is_out_of_memory_events_wait_and_then_leave() {
    let node = small_node().await;
    let vhost = node.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let config = PublishConfig {
        confirm_timeout: Duration::from_secs(2),
        ..config(&vhost.url())
    };
    let mut publisher = Publisher::connect(config).await.unwrap();
    let events = events("a", 100);

    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
    publisher.publish(events.iter().cloned().map(Arc::new).collect());
    match timeout(SOON, publisher.next()).await.unwrap() {
        Notice::Blocked { reason } => assert!(reason.contains("memory"), "{reason}"),
        other => panic!("{other:?}"),
    }
    // Longer than the confirm timeout, which must not count now.
    assert!(timeout(Duration::from_secs(3), publisher.next()).await.is_err());

    node.ctl(&["set_vm_memory_high_watermark", "0.6"]).await;
    let (mut unblocked, mut answered) = (false, 0);
    while !unblocked || answered < events.len() {
        match timeout(SOON, publisher.next()).await.unwrap() {
            Notice::Unblocked => unblocked = true,
            Notice::Answers(answers) => {
                assert!(
                    answers.iter().all(|answer| answer.verdict == Verdict::Confirmed),
                    "{answers:?}"
                );
                answered += answers.len();
            }
            other => panic!("{other:?}"),
        }
    }
    consumer.wait_for(100).await;
    assert_eq!(consumer.ids(), ids(&events), "each once");
}

#[tokio::test]
async fn a_broker_that_freezes_or_dies_is_lost_and_nobody_is_blamed() {
    let node = RabbitMq::private().start().await;
    let vhost = node.vhost().await;
    let _consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let connect_with = async |parameters: &str, confirm_timeout| {
        let url = format!("{}?{parameters}", vhost.url());
        let config = PublishConfig {
            confirm_timeout,
            ..config(&url)
        };
        Publisher::connect(config).await.unwrap()
    };
    let mut with_heartbeat = connect_with("heartbeat=1", SOON).await;
    let mut without = connect_with("heartbeat=0", Duration::from_millis(300)).await;
    let mut big = events("a", WINDOW);
    for event in &mut big {
        event.body = vec![b'x'; 100_000].into(); // more than the sockets' buffers hold
    }
    let batch = || big.iter().cloned().map(Arc::new).collect::<Vec<_>>();

    node.pause();
    with_heartbeat.publish(batch());
    without.publish(batch());
    let (silent, unconfirmed) = tokio::join!(lost(&mut with_heartbeat), lost(&mut without));
    assert!(matches!(silent, PublishError::HeartbeatMissed(_)), "{silent:?}");
    assert!(
        matches!(unconfirmed, PublishError::ConfirmTimeout { .. }),
        "{unconfirmed:?}"
    );
    node.resume();

    let mut publisher = connect_with("heartbeat=10", SOON).await;
    publisher.publish(batch());
    node.kill().await;
    let error = lost(&mut publisher).await;
    assert!(matches!(error, PublishError::Disconnected(_)), "{error:?}");
    assert!(!error.is_refusal());
    let error = Publisher::connect(config(&vhost.url())).await.unwrap_err();
    assert!(matches!(error, PublishError::Connect { .. }), "{error:?}");

    node.start().await;
    let mut publisher = connect_with("heartbeat=10", SOON).await;
    node.stop().await;
    let error = lost(&mut publisher).await;
    assert!(
        matches!(error, PublishError::ConnectionClosed { code: 320, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_idle_connection_lives_on_by_heartbeats() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let _consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&format!("{}?heartbeat=1", vhost.url())).await;
    // RabbitMQ gives up after two intervals, and so does the publisher.
    assert!(timeout(Duration::from_secs(4), publisher.next()).await.is_err());
    let verdicts = publish(&mut publisher, &events("a", 1), 1).await;
    assert!(verdicts.values().all(|verdict| *verdict == Verdict::Confirmed));
}

#[tokio::test]
async fn each_way_of_being_refused_has_its_own_error() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.user("no-configure", "secret", "^$", ".*", ".*").await;
    let attempt = async |change: &dyn Fn(&mut PublishConfig)| {
        let mut config = config(&vhost.url());
        change(&mut config);
        let error = Publisher::connect(config).await.map(|_| ()).unwrap_err();
        assert!(error.is_refusal(), "{error:?}");
        error
    };

    let wrong_password = vhost.url_as("guest", "wrong");
    let error = attempt(&|config| config.url = wrong_password.parse().unwrap()).await;
    assert!(matches!(error, PublishError::Authentication { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("wrong"));

    let wrong_vhost = format!("{}-missing", vhost.url());
    let error = attempt(&|config| config.url = wrong_vhost.parse().unwrap()).await;
    assert!(matches!(error, PublishError::Vhost { code: 530, .. }), "{error:?}");

    let error = attempt(&|config| config.exchange = "amq.fanout".to_owned()).await;
    assert!(matches!(error, PublishError::ExchangeMismatch { .. }), "{error:?}");

    let error = attempt(&|config| config.declare_exchange = false).await;
    assert!(matches!(error, PublishError::ExchangeMissing { .. }), "{error:?}");

    let unpermitted = vhost.url_as("no-configure", "secret");
    let error = attempt(&|config| config.url = unpermitted.parse().unwrap()).await;
    assert!(matches!(error, PublishError::AccessRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn an_exchange_of_any_type_that_is_there_will_do() {
    let vhost = RabbitMq::shared().await.vhost().await;
    for exchange in ["amq.fanout", ""] {
        let config = PublishConfig {
            exchange: exchange.to_owned(),
            declare_exchange: false,
            ..config(&vhost.url())
        };
        let mut publisher = Publisher::connect(config).await.unwrap();
        let events = events("nobody", 1);
        let verdicts = publish(&mut publisher, &events, 1).await;
        assert_eq!(verdicts[&events[0].id], returned(), "{exchange:?}");
    }
}

#[tokio::test]
async fn a_forbidden_exchange_is_an_events_fault_only_if_the_event_chose_it() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.exchange("forbidden").await;
    vhost.user("one-exchange", "secret", "^outbox$", "^outbox$", "^$").await;
    vhost.user("no-exchange", "secret", "^outbox$", "^$", "^$").await;
    let _consumer = vhost.consumer("outbox", "#").start().await;
    let chosen = Event {
        exchange: Some(Text::from_static("forbidden")),
        ..event("a")
    };
    let events = [event("a"), chosen, event("a")];

    let mut publisher = connect(&vhost.url_as("one-exchange", "secret")).await;
    let verdicts = publish(&mut publisher, &events, WINDOW).await;
    assert!(
        matches!(verdicts[&events[1].id], Verdict::Refused { code: 403, .. }),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[&events[2].id], Verdict::Confirmed);

    let mut publisher = connect(&vhost.url_as("no-exchange", "secret")).await;
    publisher.publish(vec![Arc::new(event("a"))]);
    let error = lost(&mut publisher).await;
    assert!(matches!(error, PublishError::AccessRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn when_the_relays_own_exchange_is_deleted_no_event_is_to_blame() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let mut publisher = connect(&vhost.url()).await;
    vhost
        .api("DELETE", &format!("/api/exchanges/{}/outbox", vhost.name()), None)
        .await;
    publisher.publish(events("a", 10).into_iter().map(Arc::new).collect());
    let error = lost(&mut publisher).await;
    assert!(matches!(error, PublishError::ExchangeMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn a_closed_publisher_leaves_no_connection_behind() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let publisher = connect(&vhost.url()).await;
    eventually("the broker lists the connection", SOON, async || {
        match connections(&vhost).await {
            1 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    publisher.close().await;
    eventually("the broker has forgotten it", SOON, async || {
        match connections(&vhost).await {
            0 => Ok(()),
            count => Err(count),
        }
    })
    .await;
}

async fn connections(vhost: &Vhost) -> usize {
    vhost.connections().await.len()
}
