//! Which of several hosts is in use.

use harness::{Postgres, RabbitMq, Stack, free_port};

use super::{http_port, wait_for_metric, wait_for_ready};

#[tokio::test]
async fn the_host_in_use_is_in_the_log_and_in_the_metrics_whichever_of_several_it_is() {
    let first = Postgres::private().start().await;
    let stack = Stack::on(&first, RabbitMq::shared().await).await;
    let second = first.standby().await;
    let (nobody, first_port, second_port, broker) = (free_port(), first.port(), second.port(), stack.vhost.port());
    // The first host is dead, the second one a standby.
    let url = format!(
        "postgres://postgres@127.0.0.1:{nobody},127.0.0.1:{second_port},localhost:{first_port}/{}?target_session_attrs=read-write",
        stack.db.name()
    );
    let relay = stack.relay().set("database-url", &url).set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    let line = relay.wait_for_log("state=connected").await;
    assert!(line.contains(&format!("host=\"localhost:{first_port} (127.0.0.1)\"")), "{line}");
    let connected = |peer: &str, host: &str, port: u16| format!("peer=\"{peer}\",host=\"{host}:{port}\"");
    let info = "outbox_connection_info";
    wait_for_metric(port, info, &connected("database", "localhost", first_port), 1.0).await;
    wait_for_metric(port, info, &connected("broker", "127.0.0.1", broker), 1.0).await;

    let mark = relay.mark();
    first.kill().await;
    wait_for_ready(port, 503, "not connected for").await;
    assert_eq!(super::metric(port, info, "peer=\"database\"").await, None, "there is no connection");
    second.promote().await;
    let line = relay.wait_for_log_after(mark, "state=connected").await;
    assert!(line.contains(&format!("host=\"127.0.0.1:{second_port}\"")), "{line}");
    wait_for_metric(port, info, &connected("database", "127.0.0.1", second_port), 1.0).await;
}
