//! What a collector may do, and what that costs: no event, and no more than a bounded time at the end.

use std::time::{Duration, Instant};

use harness::{SOON, Stack};

use super::{
    super::wait_for_counts,
    collector::{Collector, Manners, Protocol},
    emit_many, emit_sampled, traced,
};
use crate::{
    publish::tls::Certificates,
    watch::{http_port, wait_for_metric},
};

#[tokio::test]
async fn a_collector_that_is_away_or_never_answers_costs_no_event_and_bounds_the_end() {
    let cases = [Protocol::Http, Protocol::Grpc].map(|protocol| [(protocol, false), (protocol, true)]);
    for (protocol, silent) in cases.into_iter().flatten() {
        let stack = Stack::new().await;
        let consumer = stack.consumer("#").await;
        let collector = Collector::speaking(protocol, Manners::IsSilent).await;
        let relay = collector.fed_by(&stack);
        let collector = silent.then_some(collector); // else nobody listens there any more
        let relay = relay.start().await;
        emit_many(&stack, "a", 5000).await; // more than wait for a collector
        wait_for_counts(&stack.db, (0, 5000, 0), SOON).await;
        consumer.wait_for(5000).await;
        relay.wait_for_log("spans were dropped").await;
        let stopping = Instant::now();
        assert!(relay.stop().await.success());
        let took = stopping.elapsed();
        // 2 s for the collector, which would otherwise have 10 s to answer.
        assert!(took < Duration::from_secs(8), "{took:?}");
        let last = relay.log_lines().into_iter().rfind(|line| line.contains("spans were dropped")).unwrap();
        assert!(last.contains("in_all=5000"), "each is counted: {last}");
        drop(collector);
    }
}

#[tokio::test]
async fn spans_wait_for_a_collector_that_is_not_ready_yet() {
    for (protocol, unavailable, word) in [(Protocol::Http, 503, "503"), (Protocol::Grpc, 14, "Unavailable")] {
        let stack = Stack::new().await;
        let collector = Collector::speaking(protocol, Manners::Refuses(unavailable)).await;
        let _consumer = stack.consumer("#").await;
        let relay = collector.fed_by(&stack).start().await;
        emit_many(&stack, "a", 700).await;
        wait_for_counts(&stack.db, (0, 700, 0), SOON).await;
        collector.wait_for_refusal().await;
        let line = relay.wait_for_log("the collector did not take spans").await;
        assert!(line.contains(word), "{line}");
        collector.becomes(Manners::Takes);
        assert_eq!(collector.wait_for(700).await.len(), 700);
        relay.wait_for_log("the collector takes spans again").await;
    }
}

#[tokio::test]
async fn a_batch_that_the_collector_refuses_for_good_is_dropped_and_the_next_is_taken() {
    for (protocol, invalid) in [(Protocol::Http, 400), (Protocol::Grpc, 3)] {
        let stack = Stack::new().await;
        let collector = Collector::speaking(protocol, Manners::Refuses(invalid)).await;
        let _consumer = stack.consumer("#").await;
        let relay = collector.fed_by(&stack).set("http-listen", "0").start().await;
        emit_sampled(&stack, "refused").await;
        let line = relay.wait_for_log("spans were dropped").await;
        assert!(line.contains("in_all=1"), "{line}");
        collector.becomes(Manners::Takes);
        emit_sampled(&stack, "taken").await;
        let spans = collector.wait_for(1).await;
        assert_eq!((spans.len(), spans[0].name.as_str()), (1, "publish outbox:taken"));
        let port = http_port(&relay).await;
        for result in ["exported", "dropped"] {
            wait_for_metric(port, "outbox_spans_total", &format!("result=\"{result}\""), 1.0).await;
        }
    }
}

#[tokio::test]
async fn a_relay_that_stops_sends_the_last_spans_and_opentelemetrys_own_variables_count() {
    let stack = Stack::new().await;
    let collector = Collector::start(Manners::Takes).await;
    let _consumer = stack.consumer("#").await;
    let relay = stack
        .relay()
        .with_opentelemetry()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("{}/behind/", collector.url()))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=open%20sesame")
        .env("OTEL_SERVICE_NAME", "named")
        .env("OTEL_RESOURCE_ATTRIBUTES", "service.name=other")
        .start()
        .await;
    emit_many(&stack, "a", 300).await;
    wait_for_counts(&stack.db, (0, 300, 0), SOON).await;
    assert!(relay.stop().await.success());
    assert_eq!(collector.spans().len(), 300);
    let head = collector.head();
    assert!(head.starts_with("post /behind/v1/traces ") && head.contains("x-key: open sesame\r\n"), "{head}");
    assert_eq!(collector.resource("service.name").as_deref(), Some("named"));
    assert!(!relay.log_text().contains("sesame"), "{}", relay.log_text());
}

#[tokio::test]
async fn spans_go_by_grpc_with_headers_and_attributes_if_opentelemetrys_variables_say_so() {
    let stack = Stack::new().await;
    let collector = Collector::speaking(Protocol::Grpc, Manners::Takes).await;
    let _consumer = stack.consumer("#").await;
    let relay = collector
        .fed_by(&stack)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=open%20sesame")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .start()
        .await;
    emit_many(&stack, "a", 600).await;
    wait_for_counts(&stack.db, (0, 600, 0), SOON).await;
    assert!(relay.stop().await.success());
    assert_eq!(collector.spans().len(), 600);
    let head = collector.head();
    assert!(head.contains(r#""x-key": "open sesame""#), "{head}");
    assert_eq!(collector.resource("service.name").as_deref(), Some("outbox-relay"));
    assert_eq!(collector.resource("deployment.environment.name").as_deref(), Some("test"));
    assert!(!relay.log_text().contains("sesame"), "{}", relay.log_text());
}

#[tokio::test]
async fn a_request_that_is_under_way_at_the_end_is_waited_for_and_not_repeated() {
    let stack = Stack::new().await;
    let collector = Collector::start(Manners::IsSilent).await;
    let _consumer = stack.consumer("#").await;
    let relay = traced(&stack, &collector.url()).start().await;
    emit_many(&stack, "a", 30).await;
    collector.wait_for_request().await;
    wait_for_counts(&stack.db, (0, 30, 0), SOON).await;
    relay.terminate();
    relay.wait_for_log("state=stopped").await;
    collector.becomes(Manners::Takes);
    assert!(relay.exited().await.success());
    assert_eq!(collector.spans().len(), 30);
}

#[tokio::test]
async fn spans_go_by_https_to_a_collector_whose_certificate_the_machine_trusts_and_to_no_other() {
    let files = Certificates::new();
    for protocol in [Protocol::Http, Protocol::Grpc] {
        let (stack, collector) = (Stack::new().await, Collector::with_tls(protocol, &files).await);
        let _consumer = stack.consumer("#").await;
        let relay = collector.fed_by(&stack).start().await;
        emit_sampled(&stack, "a").await;
        let line = relay.wait_for_log("the collector did not take spans").await;
        assert!(line.contains("UnknownIssuer"), "{line}");
        assert!(relay.stop().await.success());
        assert_eq!(collector.spans().len(), 0);

        let _relay = collector.fed_by(&stack).env("SSL_CERT_FILE", &files.path("ca.pem")).start().await;
        emit_sampled(&stack, "b").await;
        assert_eq!(collector.wait_for(1).await[0].name, "publish outbox:b");
    }
}
