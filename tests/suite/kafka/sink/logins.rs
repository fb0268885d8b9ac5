use harness::{AclOperation, AclResource, KafkaBuilder, Listener, SOON};

use super::{Sink, emit, pass, private, shared, wait_for_counts};

#[tokio::test]
async fn a_user_logs_in_by_each_mechanism_and_a_wrong_password_ends_the_start_without_being_shown() {
    let Some(builder) = private() else { return };
    let kafka = builder.user("app", "a b/c@d").start().await;
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    let addresses = kafka.addresses(Listener::Sasl);
    for (place, mechanism) in (1..).zip(["plain", "scram-sha-256", "scram-sha-512"]) {
        let url = format!("kafka://app:a%20b%2Fc%40d@{addresses}?sasl={mechanism}");
        let relay = sink.relay().set("kafka-url", &url).start().await;
        emit(&sink.db, &topic, place * 10, 10).await;
        wait_for_counts(&sink.db, (0, place * 10, 0), SOON).await;
        assert!(relay.stop().await.success(), "{mechanism}");
        let wrong = url.replace("a%20b", "hunter2");
        let (status, log) = sink.relay().set("kafka-url", &wrong).set("no-wait", "true").finish().await;
        assert_eq!(status.code(), Some(21), "{mechanism}: {log}");
        assert!(log.contains("check user, password and mechanism") && !log.contains("hunter2"), "{log}");
    }
}

#[tokio::test]
async fn a_listener_that_expects_a_login_and_a_controllers_port_end_the_start_with_what_to_do() {
    let Some(kafka) = shared().await else { return };
    let sink = Sink::new(kafka).await;
    for (listener, said) in [(Listener::Sasl, "it may expect a login"), (Listener::Controller, "KRaft controller")] {
        let url = format!("kafka://{}", kafka.addresses(listener));
        let (status, log) = sink.relay().set("kafka-url", &url).finish().await;
        assert!(status.code() == Some(20) && log.contains(said), "{listener:?}: {status} {log}");
        assert!(!log.contains("connected to the broker"), "{log}");
    }
}

#[tokio::test]
async fn rights_that_are_taken_away_fail_events_with_the_brokers_words_and_others_are_sent() {
    let Some(kafka) = shared().await else { return };
    let (open, closed) = (kafka.topic(1, &[]).await, kafka.topic(1, &[]).await);
    for operation in [AclOperation::Write, AclOperation::Describe] {
        kafka.allow("app", AclResource::Topic(&open), operation).await;
    }
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay_of_app().start().await;
    emit(&sink.db, &closed, 1, 20).await;
    emit(&sink.db, &open, 1, 20).await;
    wait_for_counts(&sink.db, (0, 20, 20), SOON).await;
    let error: String = sink
        .db
        .query_one("SELECT max(last_error) FROM outbox.events WHERE status = 'FAILED'", &[])
        .await
        .unwrap()
        .get(0);
    assert!(error.starts_with("29 TOPIC_AUTHORIZATION_FAILED") || error.starts_with("3 UNKNOWN_TOPIC"), "{error}");
}

/// A Kafka that takes tokens of OAuth. Its own check for tests takes those that nobody has signed.
fn takes_tokens(builder: KafkaBuilder) -> KafkaBuilder {
    let module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
    builder.user("other", "secret").set("sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER").set(
        "listener.name.sasl.oauthbearer.sasl.jaas.config",
        &format!("{module} unsecuredLoginStringClaim_sub=\"broker\";"),
    )
}

/// The address with a token that is valid for so many seconds.
async fn url_with_token(sink: &Sink<'_>, seconds: i32) -> String {
    let base64 = |json: &str| format!("translate(encode(convert_to({json}, 'UTF8'), 'base64'), E'+/=\\n', '-_')");
    let claims = format!(
        "json_build_object('sub', 'app', 'iat', extract(epoch FROM now())::bigint - 1000, \
         'exp', extract(epoch FROM now())::bigint + {seconds})::text"
    );
    let sql = format!("SELECT {} || '.' || {} || '.'", base64(r#"'{"alg":"none"}'"#), base64(&claims));
    let token: String = sink.db.query_one(&sql, &[]).await.unwrap().get(0);
    format!("kafka://app:{token}@{}?sasl=oauthbearer", sink.kafka.addresses(Listener::Sasl))
}

#[tokio::test]
async fn a_token_of_oauth_is_taken_and_an_old_one_ends_the_start_without_being_shown() {
    let Some(builder) = private() else { return };
    let kafka = takes_tokens(builder).start().await;
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.relay().set("kafka-url", &url_with_token(&sink, 600).await).start().await;
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    assert!(relay.stop().await.success());
    let address = kafka.addresses(Listener::Sasl);
    let url = |token: &str| format!("kafka://app:{token}@{address}?sasl=oauthbearer");
    for url in [url_with_token(&sink, -600).await, url("hunter2")] {
        let (status, log) = sink.relay().set("kafka-url", &url).finish().await;
        assert!(status.code() == Some(21) && log.contains("the broker refuses the login"), "{url}: {status} {log}");
        let token = url.split([':', '@']).nth(2).unwrap();
        assert!(!log.contains(token), "{log}");
    }
    let (status, log) = sink.relay().set("kafka-url", &url("x").replace("oauthbearer", "scram-sha-512")).finish().await;
    assert!(status.code() == Some(21) && log.contains("it offers") && log.contains("OAUTHBEARER"), "{status} {log}");
}

#[tokio::test]
async fn a_token_in_a_file_that_is_replaced_before_it_ends_is_no_news() {
    let Some(builder) = private() else { return };
    let kafka = takes_tokens(builder).set("connections.max.reauth.ms", "2000").start().await;
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    let file = std::env::temp_dir().join(format!("{}-{}-token", sink.db.name(), std::process::id()));
    std::fs::write(&file, url_with_token(&sink, 20).await).unwrap();
    let relay = sink.relay().set("kafka-url", "").set("kafka-url-file", file.to_str().unwrap()).start().await;
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    std::fs::write(&file, url_with_token(&sink, 600).await).unwrap();
    pass(&sink.db, "21 s").await;
    emit(&sink.db, &topic, 11, 10).await;
    wait_for_counts(&sink.db, (0, 20, 0), SOON).await;
    let log = relay.log_text();
    assert!(!log.contains("WARN"), "nothing is wrong: {log}");
    std::fs::remove_file(&file).unwrap();
}
