//! The harness's Kafka: topics, records, logins, encryption, rights.

use std::sync::Arc;

use harness::{AclOperation, AclResource, KafkaClient, KafkaRecord, Listener};
use kafka_protocol::{
    messages::{DescribeUserScramCredentialsRequest, MetadataRequest},
    protocol::StrBytes,
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use super::{
    private,
    producer::{Answer, NOBODY, Producer, batch, now, record},
    shared,
};
use crate::publish::tls::Certificates;

#[tokio::test]
async fn records_are_consumed_in_order_with_their_keys_headers_and_times() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let identity = producer.identity(None).await.unwrap();
    let time = now();
    for first in 0..3 {
        let records = ["x", "y"].map(|value| {
            let mut record = record(format!("{value}{first}"));
            record.timestamp = time;
            record.headers.insert(StrBytes::from_static_str("id"), Some(format!("{first}").into()));
            record.headers.insert(StrBytes::from_static_str("none"), None);
            record
        });
        let answer = producer.produce(&topic, batch(identity, 2 * first, records.to_vec())).await;
        assert_eq!(answer, Answer::written(2 * i64::from(first)));
    }

    let mut consumer = kafka.consumer(&topic);
    let records = consumer.wait_for(6).await;
    for (place, record) in (0..).zip(records) {
        let number = place / 2;
        let value = format!("{}{number}", if place % 2 == 0 { "x" } else { "y" });
        let expected = KafkaRecord {
            partition: 0,
            offset: place,
            timestamp: time,
            key: Some("key".into()),
            headers: vec![("id".to_owned(), Some(number.to_string().into())), ("none".to_owned(), None)],
            value: Some(value.into()),
            producer: (identity.id, identity.epoch, i32::try_from(place).unwrap()),
        };
        assert_eq!(*record, expected);
        assert_eq!(record.header("id"), Some(number.to_string().as_str()));
    }
    assert_eq!(consumer.records().len(), 6);
}

#[tokio::test]
async fn compressed_records_are_consumed_and_those_with_the_brokers_time() {
    let Some(kafka) = shared().await else { return };
    for setting in [
        ("compression.type", "gzip"),
        ("compression.type", "lz4"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
    ] {
        let topic = kafka.topic(1, &[setting]).await;
        let mut producer = Producer::to_leader(kafka, &topic).await;
        let records = (0..100).map(|number| KafkaRecord { timestamp: 1_000 + number, ..produced(number) });
        let expected: Vec<_> = records.collect();
        let records = expected.iter().map(|expected| {
            let mut record = record(expected.value.clone().unwrap());
            record.timestamp = expected.timestamp;
            record
        });
        let before = now();
        assert_eq!(producer.produce(&topic, batch(NOBODY, -1, records.collect())).await, Answer::written(0));
        let mut consumed = kafka.records(&topic).await;
        if setting.1 == "LogAppendTime" {
            for (record, expected) in consumed.iter_mut().zip(&expected) {
                assert!((before..=now()).contains(&record.timestamp), "{record:?}");
                record.timestamp = expected.timestamp;
            }
        }
        assert_eq!(consumed, expected, "{setting:?}");
    }
}

/// As a consumer sees the record of this offset, which a producer without an id has written.
fn produced(offset: i64) -> KafkaRecord {
    KafkaRecord {
        partition: 0,
        offset,
        timestamp: 0,
        key: Some("key".into()),
        headers: Vec::new(),
        value: Some(offset.to_string().into()),
        producer: (-1, -1, i32::try_from(offset).unwrap() - 1),
    }
}

#[tokio::test]
async fn a_topic_grows_changes_its_settings_and_goes() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    kafka.grow_topic(&topic, 3).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let identity = producer.identity(None).await.unwrap();
    for partition in 0..3 {
        let answer = producer.produce_to(&topic, partition, batch(identity, 0, vec![record("x")])).await;
        assert_eq!(answer, Answer::written(0), "partition {partition}");
    }
    let partitions = kafka.records(&topic).await.into_iter().map(|record| record.partition);
    assert_eq!(partitions.collect::<Vec<_>>(), [0, 1, 2]);

    kafka.set_of_topic(&topic, "max.message.bytes", "100").await;
    let large = || batch(identity, 1, vec![record(vec![b'x'; 1_000])]);
    harness::eventually("it takes no large record", harness::SOON, async || {
        let answer = producer.produce_to(&topic, 2, large()).await;
        if answer == Answer::refused(10) { Ok(()) } else { Err(answer) }
    })
    .await;

    kafka.delete_topic(&topic).await;
    harness::eventually("it has gone", harness::SOON, async || {
        let answer = producer.produce(&topic, batch(identity, 1, vec![record("x")])).await;
        if answer == Answer::refused(3) { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test]
async fn a_user_logs_in_and_may_do_what_was_allowed() {
    let Some(kafka) = private() else { return };
    let kafka = kafka.user("alice", "secret").acls().start().await;
    let topic = kafka.topic(1, &[]).await;
    let port = kafka.nodes()[0].port(Listener::Sasl);

    assert_eq!(KafkaClient::connect(port).await.log_in("alice", "wrong").await, 58); // SASL_AUTHENTICATION_FAILED
    let mut alice = Producer(KafkaClient::connect(port).await);
    assert_eq!(alice.0.log_in("alice", "secret").await, 0);
    let write = |first| batch(NOBODY, first, vec![record("x")]);
    assert_eq!(alice.produce(&topic, write(-1)).await, Answer::refused(29)); // TOPIC_AUTHORIZATION_FAILED

    kafka.allow("alice", AclResource::Topic(&topic), AclOperation::Write).await;
    harness::eventually("alice may write", harness::SOON, async || {
        let answer = alice.produce(&topic, write(-1)).await;
        if answer == Answer::written(0) { Ok(()) } else { Err(answer) }
    })
    .await;
    kafka.disallow("alice", AclResource::Topic(&topic), AclOperation::Write).await;
    harness::eventually("alice may write no longer", harness::SOON, async || {
        let answer = alice.produce(&topic, write(-1)).await;
        if answer == Answer::refused(29) { Ok(()) } else { Err(answer) }
    })
    .await;

    let known = kafka.client().await.request(0, &DescribeUserScramCredentialsRequest::default().with_users(None)).await;
    let mut mechanisms: Vec<_> = known.results[0].credential_infos.iter().map(|info| info.mechanism).collect();
    mechanisms.sort_unstable();
    assert_eq!((known.results[0].user.as_str(), mechanisms), ("alice", vec![1, 2])); // SCRAM-SHA-256, SCRAM-SHA-512
}

#[tokio::test]
async fn a_node_shows_its_certificate_and_tells_clients_the_way_they_came() {
    let Some(kafka) = private() else { return };
    let files = Certificates::new();
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|file| files.path(file));
    let kafka = kafka.user("alice", "secret").tls(&certificate, &key, &ca).start().await;

    for (listener, authority, verified) in
        [(Listener::Tls, "ca.pem", true), (Listener::SaslTls, "ca.pem", true), (Listener::Tls, "other.pem", false)]
    {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(files.path(authority)).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", kafka.nodes()[0].port(listener))).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        assert_eq!(handshake.is_ok(), verified, "{listener:?} {authority}: {:?}", handshake.err());
    }
    let metadata = kafka.client().await.request(12, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!(metadata.brokers[0].port, i32::from(kafka.nodes()[0].port(Listener::Plain)));
}
