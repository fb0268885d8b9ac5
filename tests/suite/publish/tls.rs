//! Encryption and what is verified.

use std::{path::PathBuf, process::Command};

use amqp_publisher::{AmqpError, ConfirmKind};
use harness::{RabbitMq, RabbitMqBuilder, Vhost, free_port};
use uuid::Uuid;

use super::{Publisher, config, notes, publish};

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// Certificates of an authority `ca` for the server and a client, and another authority `other`.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let files = Self(folder);
        for ca in ["ca", "other"] {
            files.openssl(&format!("req -x509 {KEY} -days 2 -keyout {ca}.key -out {ca}.pem -subj /CN={ca}"));
        }
        for name in ["server", "client"] {
            files.certify(name, 2);
        }
        files
    }

    /// Makes the key and the certificate of `server` or `client`, or makes them anew.
    pub(crate) fn certify(&self, name: &str, days: u32) {
        let alternative = if name == "server" { "IP:127.0.0.1" } else { "DNS:client" };
        self.openssl(&format!(
            "req -x509 {KEY} -days {days} -CA ca.pem -CAkey ca.key -keyout {name}.key -out {name}.pem -subj /CN={name} \
             -addext subjectAltName={alternative} -addext basicConstraints=CA:FALSE"
        ));
    }

    /// Makes the certificate `alone`, which has signed itself and is no authority, and its key.
    pub(crate) fn certify_itself(&self) {
        self.openssl(&format!(
            "req -x509 {KEY} -days 2 -keyout alone.key -out alone.pem -subj /CN=alone \
             -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A node that speaks TLS on a port of its own, with these certificates.
    pub(crate) fn node(&self) -> (RabbitMqBuilder, u16) {
        let port = free_port();
        let node = RabbitMq::private()
            .set("listeners.ssl.1", &format!("127.0.0.1:{port}"))
            .set("ssl_options.cacertfile", &self.path("ca.pem"))
            .set("ssl_options.certfile", &self.path("server.pem"))
            .set("ssl_options.keyfile", &self.path("server.key"));
        (node, port)
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn amqps_verifies_the_server_and_shows_the_clients_certificate() {
    let files = Certificates::new();
    let (node, port) = files.node();
    let node =
        node.set("ssl_options.verify", "verify_peer").set("ssl_options.fail_if_no_peer_cert", "true").start().await;
    let vhost: Vhost = node.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let attempt = async |parameters: &str| {
        let url = format!("amqps://guest:guest@127.0.0.1:{port}/{}?{parameters}", vhost.name());
        Publisher::connect(config(&url)).await
    };
    let client = format!("certfile={}&keyfile={}", files.path("client.pem"), files.path("client.key"));
    let (ca, other) = (files.path("ca.pem"), files.path("other.pem"));

    let mut publisher = attempt(&format!("{client}&cacertfile={ca}")).await.unwrap();
    let mut notes = notes("a", 100);
    notes[50].body = vec![b'x'; 3_000_000].into();
    let confirms = publish(&mut publisher, &notes, 100).await;
    assert!(confirms.values().all(|kind| *kind == ConfirmKind::Acked));
    assert_eq!(consumer.wait_for(100).await[50].body, notes[50].body);
    publisher.close().await;

    for (what, parameters) in [
        ("the machine's authorities do not know it", client.clone()),
        ("another authority", format!("{client}&cacertfile={other}")),
        ("another name", format!("{client}&cacertfile={ca}&server_name_indication=elsewhere")),
        ("no such file", format!("{client}&cacertfile={ca}.missing")),
    ] {
        let error = attempt(&parameters).await.map(drop).unwrap_err();
        assert!(matches!(error.failures[0].cause, AmqpError::Tls(_)) && !error.is_transient(), "{what}: {error:?}");
    }
    let plain = format!("amqp://guest:guest@127.0.0.1:{port}/{}", vhost.name());
    let error = Publisher::connect(config(&plain)).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("amqps://"), "{error}");
    // The server looks at the client's certificate after its own part of the handshake is over.
    assert!(attempt(&format!("cacertfile={ca}")).await.is_err(), "no client certificate");
}

#[tokio::test]
async fn a_client_certificate_stands_for_a_password_and_is_read_for_each_connection() {
    let files = Certificates::new();
    let (node, port) = files.node();
    let node = node
        .plugin("rabbitmq_auth_mechanism_ssl")
        .set("auth_mechanisms.1", "EXTERNAL")
        .set("auth_mechanisms.2", "PLAIN")
        .set("ssl_cert_login_from", "common_name")
        .set("ssl_options.verify", "verify_peer")
        .set("ssl_options.fail_if_no_peer_cert", "false")
        .start()
        .await;
    let vhost: Vhost = node.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let attempt = async |parameters: &str| {
        let url = format!("amqps://127.0.0.1:{port}/{}?auth_mechanism=external{parameters}", vhost.name());
        Publisher::connect(config(&url)).await
    };
    let ca = files.path("ca.pem");
    let shows = format!("&cacertfile={ca}&certfile={}&keyfile={}", files.path("client.pem"), files.path("client.key"));
    let refused = async |parameters: &str| {
        let error = attempt(parameters).await.map(drop).unwrap_err();
        assert!(matches!(error.failures[0].cause, AmqpError::Authentication { .. }), "{parameters}: {error:?}");
    };
    refused(&shows).await; // no user has this name yet

    vhost.user("client", "a password that nobody uses", ".*", ".*", ".*").await;
    let mut publisher = attempt(&shows).await.unwrap();
    let confirms = publish(&mut publisher, &notes("a", 3), 10).await;
    assert!(confirms.values().all(|kind| *kind == ConfirmKind::Acked));
    consumer.wait_for(3).await;
    publisher.close().await;

    refused(&format!("&cacertfile={ca}")).await; // no certificate
    let of_server =
        format!("&cacertfile={ca}&certfile={}&keyfile={}", files.path("server.pem"), files.path("server.key"));
    refused(&of_server).await; // the certificate of somebody else
    files.certify("client", 1);
    attempt(&shows).await.unwrap().close().await;
}
