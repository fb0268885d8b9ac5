//! Spans of sampled events, from a relay that is built with OpenTelemetry.

mod collector;
mod exporting;

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Direction::FromServer, Proxy, RelayBuilder, SOON, Stack, eventually};
use lapin::types::AMQPValue;
use serde_json::{Value, json};
use uuid::Uuid;

use self::collector::{Collector, Manners, attribute, ending, traceparent};
use super::{FullQueue, emit, wait_for_counts, wait_for_status};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A relay that sends spans there.
fn traced(stack: &Stack, url: &str) -> RelayBuilder {
    stack.relay().with_opentelemetry().set("otlp-endpoint", url)
}

async fn emit_with(stack: &Stack, topic: &str, headers: &Value) -> Uuid {
    emit(&stack.db, "$1::text, '{}'::jsonb, headers => $2::jsonb", &[&topic, headers]).await
}

async fn emit_sampled(stack: &Stack, topic: &str) -> Uuid {
    emit_with(stack, topic, &json!({ "traceparent": SAMPLED })).await
}

/// Emits many in one transaction.
async fn emit_many(stack: &Stack, topic: &str, count: usize) {
    let emits = format!("SELECT outbox.emit('{topic}', to_jsonb(i)) FROM generate_series(1, {count}) i");
    stack
        .db
        .batch_execute(&format!("BEGIN; SET LOCAL outbox.traceparent = '{SAMPLED}'; {emits}; COMMIT"))
        .await
        .unwrap();
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_sampled_event_has_a_span_from_its_commit_to_the_confirm_and_the_message_continues_it() {
    let mut stack = Stack::new().await;
    let (consumer, collector) = (stack.consumer("#").await, Collector::start(Manners::Takes).await);
    let _relay = traced(&stack, &collector.url()).env("OTEL_SERVICE_NAME", "shop-outbox").start().await;

    let transaction = stack.db.transaction().await.unwrap();
    transaction.batch_execute(&format!("SET LOCAL outbox.traceparent = '{SAMPLED}'")).await.unwrap();
    let sql = r#"SELECT outbox.emit('orders.created', '{"a": 1}'::jsonb, correlation_id => 'request-7',
                                    headers => '{"tracestate": "shop=1,other=2", "mine": 7}')"#;
    let id: Uuid = transaction.query_one(sql, &[]).await.unwrap().get(0);
    let before = now_ns();
    transaction.commit().await.unwrap();
    let after = now_ns();

    let delivery = &consumer.wait_for(1).await[0];
    let spans = collector.wait_for(1).await;
    let span = &spans[0];
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!(
        delivery.text_header("traceparent"),
        Some(traceparent(span)),
        "the consumer's parent is the relay's span"
    );
    assert_ne!(hex(&span.span_id), PARENT);
    assert_eq!(delivery.text_header("tracestate").as_deref(), Some("shop=1,other=2"));
    assert_eq!(span.trace_state, "shop=1,other=2");
    assert_eq!(delivery.header("mine"), Some(&AMQPValue::LongLongInt(7)));
    let microsecond = 1000;
    assert!((before - microsecond..=after).contains(&span.start_time_unix_nano), "{before} {span:?} {after}");
    assert!((span.start_time_unix_nano..=now_ns()).contains(&span.end_time_unix_nano));
    assert_eq!((span.name.as_str(), ending(span)), ("publish outbox:orders.created", None));
    for (name, value) in [
        ("messaging.system", "rabbitmq"),
        ("messaging.operation.name", "publish"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.name", "outbox:orders.created"),
        ("messaging.rabbitmq.destination.routing_key", "orders.created"),
        ("messaging.message.id", &id.to_string()),
        ("messaging.message.conversation_id", "request-7"),
        ("messaging.message.body.size", "8"),
        ("server.address", "127.0.0.1"),
        ("network.peer.address", "127.0.0.1"),
        ("outbox.attempt", "1"),
    ] {
        assert_eq!(attribute(span, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(collector.resource("service.name").as_deref(), Some("shop-outbox"));
    assert!(collector.head().starts_with("post /v1/traces http/1.1\r\n"), "{}", collector.head());
}

#[tokio::test]
async fn an_event_that_is_not_sampled_or_whose_context_is_not_valid_passes_unchanged() {
    let stack = Stack::new().await;
    let (consumer, collector) = (stack.consumer("#").await, Collector::start(Manners::Takes).await);
    let _relay = traced(&stack, &collector.url()).start().await;
    let not_sampled = SAMPLED.replace("-01", "-00");
    let contexts = [
        json!(not_sampled),
        json!(SAMPLED.to_uppercase()),
        json!(SAMPLED.replacen("00", "ff", 1)),
        json!(SAMPLED.replace(TRACE, &"0".repeat(32))),
        json!(SAMPLED.replace(PARENT, &"0".repeat(16))),
        json!(format!("{SAMPLED}-more")),
        json!(SAMPLED.repeat(1000)),
        json!(format!(" {SAMPLED}")),
        json!("\u{1}\u{7f}ä\"\\"),
        json!(""),
        json!(1),
        json!(true),
        json!(null),
        json!([SAMPLED]),
        json!({ "traceparent": SAMPLED }),
    ];
    for context in &contexts {
        emit_with(&stack, "a", &json!({ "traceparent": context, "tracestate": [SAMPLED] })).await;
    }
    emit_with(&stack, "a", &json!({ "inner": { "traceparent": SAMPLED }, "Traceparent": SAMPLED })).await;
    emit_sampled(&stack, "last").await;

    let deliveries = consumer.wait_for(contexts.len() + 2).await;
    for (context, delivery) in contexts.iter().zip(&deliveries) {
        let arrived = delivery.header("traceparent").unwrap();
        match context {
            Value::String(text) => assert_eq!(delivery.text_header("traceparent").as_ref(), Some(text)),
            Value::Number(_) => assert_eq!(arrived, &AMQPValue::LongLongInt(1)),
            Value::Bool(_) => assert_eq!(arrived, &AMQPValue::Boolean(true)),
            Value::Null => assert_eq!(arrived, &AMQPValue::Void),
            Value::Array(_) => assert!(matches!(arrived, AMQPValue::FieldArray(list) if list.as_slice().len() == 1)),
            Value::Object(_) => assert!(matches!(arrived, AMQPValue::FieldTable(table) if table.inner().len() == 1)),
        }
        assert!(matches!(delivery.header("tracestate"), Some(AMQPValue::FieldArray(_))));
    }
    let nested = &deliveries[contexts.len()];
    assert_eq!((nested.header("traceparent"), nested.text_header("Traceparent").as_deref()), (None, Some(SAMPLED)));
    let spans = collector.wait_for(1).await;
    assert_eq!((spans.len(), spans[0].name.as_str()), (1, "publish outbox:last"), "the last event's alone");
}

#[tokio::test]
async fn a_later_version_of_the_context_is_continued_as_far_as_it_is_known() {
    let stack = Stack::new().await;
    let (consumer, collector) = (stack.consumer("#").await, Collector::start(Manners::Takes).await);
    let _relay = traced(&stack, &collector.url()).start().await;
    let headers =
        json!({ "traceparent": format!("{}-later", SAMPLED.replacen("00", "01", 1)), "tracestate": "x".repeat(9000) });
    emit_with(&stack, "a", &headers).await;
    let delivery = &consumer.wait_for(1).await[0];
    let spans = collector.wait_for(1).await;
    assert_eq!(hex(&spans[0].trace_id), TRACE);
    assert_eq!(delivery.text_header("traceparent"), Some(traceparent(&spans[0])));
    assert_eq!(delivery.text_header("tracestate").map(|state| state.len()), Some(9000), "it passes through");
}

#[tokio::test]
async fn a_message_that_is_not_taken_ends_its_span_with_the_brokers_reason() {
    let stack = Stack::new().await;
    let collector = Collector::start(Manners::Takes).await;
    let full = FullQueue::bind(&stack.vhost, "full").await;
    let _relay = traced(&stack, &collector.url()).set("retry-base", "20ms").set("retry-max", "50ms").start().await;
    let returned = emit_sampled(&stack, "unbound").await;
    let sql = "'a', '{}'::jsonb, exchange => 'missing', headers => $1::jsonb";
    let refused = emit(&stack.db, sql, &[&json!({ "traceparent": SAMPLED })]).await;
    wait_for_counts(&stack.db, (0, 0, 2), SOON).await;
    let nacked = emit_sampled(&stack, "full").await;
    let of = |id: Uuid| {
        let spans = collector.spans();
        let is_its = |span: &_| attribute(span, "messaging.message.id") == Some(id.to_string());
        spans.into_iter().filter(is_its).collect::<Vec<_>>()
    };
    eventually(
        "two attempts were refused",
        SOON,
        async || if of(nacked).len() >= 2 { Ok(()) } else { Err(of(nacked)) },
    )
    .await;
    full.make_room().await;
    wait_for_status(&stack.db, nacked, "SENT").await;
    eventually("the span of the last attempt is there", SOON, async || {
        let spans = of(nacked);
        if spans.iter().any(|span| ending(span).is_none()) { Ok(()) } else { Err(spans.len()) }
    })
    .await;

    let ends = |id: Uuid| of(id).iter().map(ending).collect::<Vec<_>>();
    assert_eq!(ends(returned), [Some(("returned".to_owned(), "312 NO_ROUTE".to_owned()))]);
    let [Some((kind, reason))] = &ends(refused)[..] else { panic!("{:?}", ends(refused)) };
    assert!(kind == "no_exchange" && reason.starts_with("404 NOT_FOUND"), "{kind} {reason}");
    assert_eq!(attribute(&of(refused)[0], "messaging.destination.name").as_deref(), Some("missing:a"));
    let mut attempts = of(nacked);
    attempts.sort_by_key(|span| span.end_time_unix_nano);
    let (last, before) = attempts.split_last().unwrap();
    assert!(before.iter().all(|span| ending(span).is_some_and(|(kind, _)| kind == "nacked")));
    assert_eq!(ending(last), None);
    let ids: std::collections::HashSet<_> = attempts.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids.len(), attempts.len(), "each attempt has a span of its own");
}

#[tokio::test]
async fn a_span_whose_connection_is_lost_says_that_nobody_knows_and_the_next_delivery_has_its_own() {
    let stack = Stack::new().await;
    let (consumer, collector) = (stack.consumer("#").await, Collector::start(Manners::Takes).await);
    let proxy = Proxy::to(stack.vhost.port()).await;
    let builder = traced(&stack, &collector.url()).set("amqp-url", &stack.vhost.url_at(proxy.port()));
    let _relay = builder.start().await;
    proxy.hold(FromServer);
    let id = emit_sampled(&stack, "a").await;
    consumer.wait_for(1).await;
    proxy.cut();
    proxy.release(FromServer);
    wait_for_status(&stack.db, id, "SENT").await;

    let mut spans = collector.wait_for(2).await;
    spans.sort_by_key(|span| span.end_time_unix_nano);
    let ends: Vec<_> = spans.iter().map(|span| ending(span).map(|(kind, _)| kind)).collect();
    assert_eq!(ends, [Some("unanswered".to_owned()), None]);
    let carried: Vec<_> = consumer.wait_for(2).await.iter().map(|d| d.text_header("traceparent").unwrap()).collect();
    assert_eq!(carried, spans.iter().map(traceparent).collect::<Vec<_>>());
    let attempts: Vec<_> = spans.iter().map(|span| attribute(span, "outbox.attempt").unwrap()).collect();
    assert_eq!(attempts, ["1", "1"], "an outage costs no attempt");
}

#[tokio::test]
async fn without_a_collector_and_without_opentelemetry_every_context_passes_unchanged() {
    for builder in [RelayBuilder::with_opentelemetry as fn(RelayBuilder) -> RelayBuilder, |builder| builder] {
        let stack = Stack::new().await;
        let consumer = stack.consumer("#").await;
        let relay = builder(stack.relay()).start().await;
        emit_sampled(&stack, "a").await;
        assert_eq!(consumer.wait_for(1).await[0].text_header("traceparent").as_deref(), Some(SAMPLED));
        assert!(!relay.log_text().contains("spans"), "{}", relay.log_text());
    }
}

#[tokio::test]
async fn a_relay_without_opentelemetry_says_how_to_build_one_and_passes_the_shared_variable_over() {
    let stack = Stack::new().await;
    let (status, told) = stack.relay().set("otlp-endpoint", "http://localhost:4318").finish().await;
    assert_eq!(status.code(), Some(2));
    assert!(told.contains("--features otel"), "{told}");
    // A platform sets it for every program of a namespace.
    let _relay = stack.relay().env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318").start().await;
}
