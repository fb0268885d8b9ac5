//! `/healthz` and `/readyz`.

use std::time::Duration;

use harness::{Postgres, RabbitMq, Stack, get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{http_port, wait_for_metric, wait_for_ready};

#[tokio::test]
async fn readyz_says_whether_events_are_delivered_and_why_not() {
    let rabbitmq = RabbitMq::private().start().await;
    let stack = Stack::on(Postgres::shared().await, &rabbitmq).await;
    let relay = stack.relay().set("http-listen", "0").set("park-after", "100ms").start().await;
    let port = http_port(&relay).await;
    wait_for_ready(port, 200, "delivering").await;

    rabbitmq.kill().await;
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 1234) i").await.unwrap();
    wait_for_ready(port, 503, "no connection to RabbitMQ for").await;
    wait_for_ready(port, 503, "1,234 events wait safely, the oldest for").await;
    wait_for_metric(port, "outbox_broker_up", "", 0.0).await;
    wait_for_metric(port, "outbox_state", "state=\"parked\"", 1.0).await;
    assert_eq!(get(port, "/healthz").await.unwrap().status, 200, "a restart would not fix it");

    rabbitmq.start().await;
    wait_for_ready(port, 200, "delivering").await;
    wait_for_metric(port, "outbox_reconnects_total", "peer=\"broker\"", 1.0).await;
    wait_for_metric(port, "outbox_passes_total", "reason=\"broker_away\"", 1.0).await;
}

#[tokio::test]
async fn a_standby_is_ready_and_one_without_a_database_is_not() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let first = stack.relay().start().await;
    let second = stack.relay().set("http-listen", "0").spawn();
    let port = http_port(&second).await;
    wait_for_ready(port, 200, "another relay is at work").await;
    wait_for_metric(port, "outbox_state", "state=\"standby\"", 1.0).await;

    first.stop().await;
    wait_for_ready(port, 200, "delivering").await;

    postgres.stop(harness::Shutdown::Immediate).await;
    wait_for_ready(port, 503, "not connected for").await;
    assert_eq!(get(port, "/healthz").await.unwrap().status, 200);
    wait_for_metric(port, "outbox_state", "state=\"disconnected\"", 1.0).await;
    wait_for_metric(port, "outbox_database_up", "", 0.0).await;

    postgres.start().await;
    wait_for_ready(port, 200, "delivering").await;
    wait_for_metric(port, "outbox_reconnects_total", "peer=\"database\"", 1.0).await;
}

#[tokio::test]
async fn a_probe_is_answered_within_a_second_however_many_connections_others_hold() {
    let stack = Stack::new().await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    wait_for_ready(port, 200, "delivering").await;
    let mut held = Vec::new();
    for says in ["", "GET /healthz HTTP/1.1\r\nHost: local", "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        for _ in 0..100 {
            let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            socket.write_all(says.as_bytes()).await.unwrap();
            held.push(socket);
        }
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = timeout(Duration::from_secs(1), get(port, path)).await.expect("an answer within a second");
        assert_eq!(answer.unwrap().status, 200, "{path}");
    }
    let mut oldest = held.remove(0);
    let ended = timeout(harness::SOON, oldest.read(&mut [0])).await.expect("the oldest connection ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

#[tokio::test]
async fn a_port_in_use_ends_the_start_and_is_named() {
    let stack = Stack::new().await;
    let first = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&first).await.to_string();
    let (status, log) = stack.relay().set("http-listen", &port).finish().await;
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains(&format!("cannot listen on 127.0.0.1:{port} (http-listen)")), "{log}");
}
