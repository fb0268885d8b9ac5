//! Connecting, and being refused.

use std::collections::HashSet;

use amqp_publisher::{AmqpError, ConnectError, ExchangeUse, PublishConfig};
use harness::{Proxy, RabbitMq};
use tokio::io::AsyncWriteExt;

use super::{Publisher, config, lost, notes, publish, returned};

/// What went wrong at the only host there is.
fn cause(error: ConnectError) -> AmqpError {
    let [failure] = <[_; 1]>::try_from(error.failures).unwrap();
    failure.cause
}

#[tokio::test]
async fn each_way_of_being_refused_has_its_own_error() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.user("no-configure", "secret", "^$", ".*", ".*").await;
    let attempt = async |change: &dyn Fn(&mut PublishConfig)| {
        let mut config = config(&vhost.url());
        change(&mut config);
        let error = Publisher::connect(config).await.map(|_| ()).unwrap_err();
        assert!(error.refusal().is_some() && !error.is_transient(), "{error:?}");
        cause(error)
    };

    let wrong_password = vhost.url_as("guest", "wrong");
    let error = attempt(&|config| config.url = wrong_password.parse().unwrap()).await;
    assert!(matches!(error, AmqpError::Authentication { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("wrong"));

    let wrong_vhost = format!("{}-missing", vhost.url());
    let error = attempt(&|config| config.url = wrong_vhost.parse().unwrap()).await;
    assert!(matches!(error, AmqpError::Vhost { code: 530, .. }), "{error:?}");

    let error = attempt(&|config| config.exchange = "amq.fanout".to_owned()).await;
    assert!(matches!(error, AmqpError::ExchangeMismatch { .. }), "{error:?}");

    let error = attempt(&|config| config.exchange_use = ExchangeUse::Take).await;
    assert!(matches!(error, AmqpError::ExchangeMissing { .. }), "{error:?}");

    let unpermitted = vhost.url_as("no-configure", "secret");
    let error = attempt(&|config| config.url = unpermitted.parse().unwrap()).await;
    assert!(matches!(error, AmqpError::AccessRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn an_exchange_of_any_type_that_is_there_will_do() {
    let vhost = RabbitMq::shared().await.vhost().await;
    for exchange in ["amq.fanout", ""] {
        let config =
            PublishConfig { exchange: exchange.to_owned(), exchange_use: ExchangeUse::Take, ..config(&vhost.url()) };
        let mut publisher = Publisher::connect(config).await.unwrap();
        let notes = notes("nobody", 1);
        let confirms = publish(&mut publisher, &notes, 1).await;
        assert_eq!(confirms[&notes[0].id], returned(), "{exchange:?}");
    }
}

#[tokio::test]
async fn whether_the_user_may_publish_is_known_before_there_is_an_event_and_asking_changes_nothing() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.exchange("outbox").await;
    let attempt = async |name: &str, write: &str, read: &str, exchange: &str| {
        vhost.user(name, "secret", ".*", write, read).await;
        let url = vhost.url_as(name, "secret");
        let exchange_use = ExchangeUse::Take;
        let config = PublishConfig { exchange: exchange.to_owned(), exchange_use, ..config(&url) };
        Publisher::connect(config).await.map(drop).map_err(cause)
    };
    for exchange in ["outbox", "amq.topic", "amq.direct"] {
        let error = attempt("may-read-all", "", ".*", exchange).await.unwrap_err();
        assert!(matches!(error, AmqpError::MayNotPublish { .. }), "{error:?}");
        assert!(
            error.to_string().contains("write permission") && error.to_string().contains("may-read-all"),
            "{error}"
        );
        attempt("may-only-write", &exchange.replace('.', "\\."), "", exchange).await.unwrap();
        attempt("may-all", ".*", ".*", exchange).await.unwrap();
    }
    attempt("nothing", "", "", "")
        .await
        .expect("the default exchange has no permissions of its own that can be asked for");
    let bindings = vhost.api("GET", &format!("/api/bindings/{}", vhost.name()), None).await;
    assert_eq!(bindings.as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn a_wrong_port_is_told_from_a_broken_broker() {
    let node = RabbitMq::shared().await;
    for (scheme, port, reason) in [
        ("amqps", node.amqp_port(), "use amqp://"),
        ("amqp", node.http_port(), "not AMQP's"),
        ("amqps", node.http_port(), "does not speak TLS"),
    ] {
        let url = format!("{scheme}://guest:hunter2@127.0.0.1:{port}/");
        let error = Publisher::connect(config(&url)).await.map(drop).unwrap_err();
        let text = error.to_string();
        let cause = cause(error);
        assert!(matches!(cause, AmqpError::WrongPort(_) | AmqpError::HungUp), "{scheme} to {port}: {cause:?}");
        assert!(
            text.contains(reason) && text.contains(&format!("127.0.0.1:{port}")) && !text.contains("hunter2"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn whatever_does_not_speak_amqp_is_a_wrong_port_by_its_first_words() {
    for (says, reason) in [
        (&b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"[..], "it speaks SSH"),
        (b"220 mail.example ESMTP\r\n", "not AMQP"),
        (b"-ERR unknown command\r\n", "not AMQP"),
        (b"-", "not AMQP"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"AMQP\x00\x01\x00\x00", "another version of AMQP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS"),
        // MySQL: a packet's length and number, a version, …
        (b"\x4a\x00\x00\x00\x0a8.0.36\x00", "not AMQP"),
        // Garbage that begins like a frame: on another channel, too long, without an end, of no known method.
        (b"\x01\x35\x2e", "not AMQP"),
        (b"\x01\x00\x00\xff\xff\xff\xff", "not AMQP"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\x00", "not AMQP"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x63\x63\x63\x63\xce", "not AMQP"),
        (b"\x08\x00\x00\x00\x00\x00\x00\xce", "not AMQP"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("amqp://guest:hunter2@{}/", listener.local_addr().unwrap());
        let speak = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(says).await.unwrap();
            std::future::pending::<()>().await; // the connection stays open
        };
        let error = tokio::select! {
            connected = Publisher::connect(config(&url)) => connected.map(drop).unwrap_err(),
            () = speak => unreachable!(),
        };
        assert!(!error.is_transient() && error.to_string().contains(reason), "{says:?}: {error}");
        let cause = cause(error);
        assert!(matches!(cause, AmqpError::WrongPort(_)), "{says:?}: {cause:?}");
    }
}

#[tokio::test]
async fn of_several_hosts_one_that_lets_the_publisher_in_is_enough_and_which_it_is_is_known() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let (away, there) = (Proxy::to(vhost.port()).await, Proxy::to(vhost.port()).await);
    away.refuse();
    let hosts = format!("127.0.0.1:1,127.0.0.1:{},localhost:{}", away.port(), there.port());
    let url = |hosts: &str| format!("amqp://guest:guest@{hosts}/{}", vhost.name());
    for _ in 0..10 {
        let publisher = Publisher::connect(config(&url(&hosts))).await.unwrap();
        assert_eq!(publisher.peer().to_string(), format!("localhost:{} (127.0.0.1)", there.port()));
    }
    there.refuse();
    let error = Publisher::connect(config(&url(&hosts))).await.unwrap_err();
    let text = error.to_string();
    let named =
        ["127.0.0.1:1", &format!("127.0.0.1:{}", away.port()), &format!("localhost:{} (127.0.0.1)", there.port())];
    assert!(named.iter().all(|host| text.contains(host)) && text.contains("refused"), "{text}");
    assert!(error.is_transient() && !text.contains("guest:"), "{text}");
}

#[tokio::test]
async fn hosts_are_chosen_at_random_and_the_one_that_was_lost_comes_last() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let (first, second) = (Proxy::to(vhost.port()).await, Proxy::to(vhost.port()).await);
    let url = format!("amqp://guest:guest@127.0.0.1:{},127.0.0.1:{}/{}", first.port(), second.port(), vhost.name());
    let mut seen = HashSet::new();
    for _ in 0..20 {
        let mut publisher = Publisher::connect(config(&url)).await.unwrap();
        let peer = publisher.peer().address;
        seen.insert(peer.port());
        (if peer.port() == first.port() { &first } else { &second }).cut();
        lost(&mut publisher).await;
        let next = Publisher::connect(PublishConfig { try_last: Some(peer), ..config(&url) }).await.unwrap();
        assert_ne!(next.peer().address, peer);
    }
    assert_eq!(seen, HashSet::from([first.port(), second.port()]));
}

#[tokio::test]
async fn a_broker_with_too_many_connections_does_not_refuse_for_good() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let limit = format!("/api/vhost-limits/{}/max-connections", vhost.name());
    vhost.api("PUT", &limit, Some(&serde_json::json!({ "value": 0 }))).await;
    let error = Publisher::connect(config(&vhost.url())).await.unwrap_err();
    assert!(error.is_transient() && error.refusal().is_none(), "{error:?}");
    assert!(matches!(cause(error), AmqpError::ConnectionLimit(_)));
}
