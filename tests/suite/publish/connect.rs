//! Connecting, and being refused.

use harness::RabbitMq;
use relay::publish::{PublishConfig, PublishError, Publisher};

use super::{config, events, publish, returned};

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
        let config = PublishConfig { exchange: exchange.to_owned(), declare_exchange: false, ..config(&vhost.url()) };
        let mut publisher = Publisher::connect(config).await.unwrap();
        let events = events("nobody", 1);
        let verdicts = publish(&mut publisher, &events, 1).await;
        assert_eq!(verdicts[&events[0].id], returned(), "{exchange:?}");
    }
}
