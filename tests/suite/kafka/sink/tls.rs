//! Encrypted connections, and who the two sides are.

use harness::{AclOperation, AclResource, Listener, SOON};

use super::{Sink, emit, private, wait_for_counts};
use crate::publish::tls::Certificates;

#[tokio::test]
async fn kafkas_verifies_the_broker_and_shows_the_clients_certificate_which_stands_for_a_password() {
    let Some(builder) = private() else { return };
    let files = Certificates::new();
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|file| files.path(file));
    let kafka = builder.tls(&certificate, &key, &ca).acls().set("ssl.client.auth", "required").start().await;
    let (topic, other) = (kafka.topic(1, &[]).await, kafka.topic(1, &[]).await);
    kafka.allow("CN=client", AclResource::Topic(&topic), AclOperation::Write).await;
    let sink = Sink::new(&kafka).await;
    let address = kafka.addresses(Listener::Tls);
    let mine = format!("certfile={}&keyfile={}", files.path("client.pem"), files.path("client.key"));

    let url = format!("kafkas://{address}?cacertfile={ca}&{mine}");
    let relay = sink.relay().set("kafka-url", &url).start().await;
    emit(&sink.db, &topic, 1, 100).await;
    emit(&sink.db, &other, 1, 10).await;
    wait_for_counts(&sink.db, (0, 100, 10), SOON).await;
    assert!(relay.stop().await.success());

    // Each of these is permanent: the start ends, although it might wait for a broker.
    let port = address.rsplit(':').next().unwrap();
    for (what, url, said) in [
        ("the machine's authorities do not know it", format!("kafkas://{address}?{mine}"), "UnknownIssuer"),
        (
            "another authority",
            format!("kafkas://{address}?cacertfile={}&{mine}", files.path("other.pem")),
            "invalid peer certificate",
        ),
        ("another name", format!("kafkas://localhost:{port}?cacertfile={ca}&{mine}"), "not valid for name"),
        ("no such file", format!("kafkas://{address}?cacertfile={ca}.missing&{mine}"), "ca.pem.missing"),
        ("no certificate of the client", format!("kafkas://{address}?cacertfile={ca}"), "ertificate"),
        (
            "one that the broker's authority has not signed",
            format!(
                "kafkas://{address}?cacertfile={ca}&certfile={}&keyfile={}",
                files.path("other.pem"),
                files.path("other.key")
            ),
            "ertificate",
        ),
        ("no TLS where the broker expects it", format!("kafka://{address}"), "it may expect TLS"),
    ] {
        let (status, log) = sink.relay().set("kafka-url", &url).finish().await;
        assert!(status.code() == Some(20) && log.contains(said), "{what}: {status} {log}");
        assert!(log.contains("check hosts, ports and TLS"), "{what}: {log}");
    }
    let plain = format!("kafkas://{}?cacertfile={ca}", kafka.addresses(Listener::Plain));
    let (status, log) = sink.relay().set("kafka-url", &plain).finish().await;
    assert!(status.code() == Some(20) && log.contains("it may not speak TLS"), "{status} {log}");
}

#[tokio::test]
async fn a_user_logs_in_over_tls() {
    let Some(builder) = private() else { return };
    let files = Certificates::new();
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|file| files.path(file));
    let kafka = builder.user("app", "secret").tls(&certificate, &key, &ca).start().await;
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    let address = kafka.addresses(Listener::SaslTls);
    let url = format!("kafkas://app:secret@{address}?cacertfile={ca}&sasl=scram-sha-256");
    let _relay = sink.relay().set("kafka-url", &url).start().await;
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    let (status, log) = sink.relay().set("kafka-url", &url.replace("secret", "hunter2")).finish().await;
    assert!(status.code() == Some(21) && !log.contains("hunter2"), "{status} {log}");
    let nobody = format!("kafkas://{address}?cacertfile={ca}");
    let (status, log) = sink.relay().set("kafka-url", &nobody).finish().await;
    assert!(status.code() == Some(20) && log.contains("it may expect a login"), "{status} {log}");
}

#[tokio::test]
async fn a_certificate_that_has_signed_itself_is_taken_unless_it_is_an_authoritys() {
    let Some(builder) = private() else { return };
    let files = Certificates::new();
    files.certify_itself();
    let [ca, ca_key, alone, key] = ["ca.pem", "ca.key", "alone.pem", "alone.key"].map(|file| files.path(file));

    let kafka = builder.tls(&ca, &ca_key, &ca).start().await;
    let sink = Sink::new(&kafka).await;
    let address = kafka.addresses(Listener::Tls);
    for trusted in ["", &format!("?cacertfile={ca}")] {
        let (status, log) = sink.relay().set("kafka-url", &format!("kafkas://{address}{trusted}")).finish().await;
        assert!(status.code() == Some(20) && log.contains("one that an authority has signed"), "{status} {log}");
        assert!(log.contains("one without CA:TRUE"), "{log}");
    }

    let Some(builder) = private() else { return };
    let kafka = builder.tls(&alone, &key, &ca).start().await;
    let topic = kafka.topic(1, &[]).await;
    let url = format!("kafkas://{}?cacertfile={alone}", kafka.addresses(Listener::Tls));
    let _relay = sink.relay().set("kafka-url", &url).start().await;
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
}
