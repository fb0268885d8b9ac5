//! When the certificates of the relay's connections expire.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{SOON, Stack, eventually};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{http_port, metric};
use crate::{publish::tls::Certificates, replication::tls::Server};

const EXPIRY: &str = "outbox_certificate_expiry_timestamp_seconds";

/// In how many days a certificate expires, as `/metrics` says.
async fn days_left(port: u16, peer: &str, side: &str) -> Option<f64> {
    let until = metric(port, EXPIRY, &format!("peer=\"{peer}\",side=\"{side}\"")).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    Some(((until - now) / 86_400.0).round())
}

async fn wait_for_days_left(port: u16, expected: [(&str, &str, Option<f64>); 4]) {
    for (peer, side, days) in expected {
        eventually(&format!("{peer}, {side}: {days:?} days are left"), SOON, async || {
            match days_left(port, peer, side).await {
                shown if shown == days => Ok(()),
                shown => Err(shown),
            }
        })
        .await;
    }
}

/// Waits until the dashboard answers the question whether events flow with these words and no more.
async fn wait_for_words(port: u16, words: &str) {
    let answer = format!("\"words\":\"Events flow{words}.\"");
    let told = async {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.write_all(b"GET /api/live HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut lines = BufReader::new(socket).lines();
        while !lines.next_line().await.unwrap().expect("it tells each second").contains(&answer) {}
    };
    tokio::time::timeout(SOON, told).await.unwrap_or_else(|_| panic!("the dashboard does not say {answer}"));
}

#[tokio::test]
async fn the_end_of_each_certificate_is_shown_and_that_of_a_renewed_one_once_the_relay_has_connected_again() {
    let (database, broker) = (Server::start().await, Certificates::new());
    let (node, port) = broker.node();
    let node = node.start().await;
    let stack = Stack::on(&database.postgres, &node).await;
    broker.certify("client", 30);
    let file = |name: &str| broker.path(name);
    let amqp_url = format!(
        "amqps://guest:guest@127.0.0.1:{port}/{}?cacertfile={}&certfile={}&keyfile={}",
        stack.vhost.name(),
        file("ca.pem"),
        file("client.pem"),
        file("client.key")
    );
    let relay = stack.relay().set("database-url", &format!("{}?sslmode=require", stack.db.url()));
    let relay = relay.set("amqp-url", &amqp_url).set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    let shown = |database, server, client| {
        [
            ("database", "server", Some(database)),
            ("database", "client", None),
            ("broker", "server", Some(server)),
            ("broker", "client", Some(client)),
        ]
    };
    wait_for_days_left(port, shown(2.0, 2.0, 30.0)).await;
    let soon = "certificate expires in 2d";
    wait_for_words(port, &format!(", but PostgreSQL's {soon}, and RabbitMQ's {soon}")).await;

    database.renew(90).await;
    broker.certify("server", 80);
    broker.certify("client", 60);
    node.ctl(&["eval", "ssl:clear_pem_cache()."]).await;
    // What they were connected with counts until they connect again.
    wait_for_days_left(port, shown(2.0, 2.0, 30.0)).await;
    node.cut_connections(stack.vhost.name()).await;
    wait_for_days_left(port, shown(2.0, 80.0, 60.0)).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'outbox-relay'";
    stack.db.execute(end, &[]).await.unwrap();
    wait_for_days_left(port, shown(90.0, 80.0, 60.0)).await;
    wait_for_words(port, "").await;
}

#[tokio::test]
async fn where_nothing_is_encrypted_no_certificate_is_shown() {
    let stack = Stack::new().await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    super::wait_for_metric(port, "outbox_broker_up", "", 1.0).await;
    assert_eq!(metric(port, EXPIRY, "").await, None);
}
