//! Connecting, and being refused.

use amqp_publisher::{ExchangeUse, PublishConfig, PublishError};
use harness::RabbitMq;

use super::{Publisher, config, notes, publish, returned};

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

    let error = attempt(&|config| config.exchange_use = ExchangeUse::Take).await;
    assert!(matches!(error, PublishError::ExchangeMissing { .. }), "{error:?}");

    let unpermitted = vhost.url_as("no-configure", "secret");
    let error = attempt(&|config| config.url = unpermitted.parse().unwrap()).await;
    assert!(matches!(error, PublishError::AccessRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn an_exchange_of_any_type_that_is_there_will_do() {
    let vhost = RabbitMq::shared().await.vhost().await;
    for exchange in ["amq.fanout", ""] {
        let config =
            PublishConfig { exchange: exchange.to_owned(), exchange_use: ExchangeUse::Take, ..config(&vhost.url()) };
        let mut publisher = Publisher::connect(config).await.unwrap();
        let notes = notes("nobody", 1);
        let verdicts = publish(&mut publisher, &notes, 1).await;
        assert_eq!(verdicts[&notes[0].id], returned(), "{exchange:?}");
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
        Publisher::connect(config).await.map(drop)
    };
    for exchange in ["outbox", "amq.topic", "amq.direct"] {
        let error = attempt("may-read-all", "", ".*", exchange).await.unwrap_err();
        assert!(matches!(error, PublishError::MayNotPublish { .. }), "{error:?}");
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
        assert!(matches!(error, PublishError::WrongPort { .. }), "{scheme} to {port}: {error:?}");
        assert!(
            text.contains(reason) && text.contains(&format!("127.0.0.1:{port}")) && !text.contains("hunter2"),
            "{text}"
        );
    }
}
