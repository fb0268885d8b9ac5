//! Private PostgreSQL, RabbitMQ and Kafka servers, a relay and a consumer, for the suite, the tools and the benchmark.
//!
//! | you want | use |
//! |---|---|
//! | a database and a vhost of your own on the shared servers | [`Stack::new`] |
//! | a server you may stop, kill, freeze and start again | [`Postgres::private`], [`RabbitMq::private`], then [`Stack::on`] |
//! | three nodes that are one broker | [`Cluster::start`] |
//! | the real relay as a process | [`Stack::relay`] |
//! | what arrived at the broker | [`Stack::consumer`] |
//! | a Kafka that others share, and topics of your own on it | [`Kafka::shared`], [`Kafka::topic`] |
//! | a Kafka whose nodes you may stop, kill and freeze | [`Kafka::private`] |
//! | what arrived in a topic | [`Kafka::consumer`] |
//! | what arrives in a topic, and when | [`Kafka::follow`] |
//! | a connection that is cut, stalled or held at one moment | [`Proxy`] |
//! | connections that share the server's sessions | [`PgBouncer`] |
//! | a page in a real browser | [`Browser`] |
//! | the alerts that a real Prometheus raises | [`Prometheus`] |
//! | to wait for something | [`eventually`] |
//! | random input that can be repeated | [`seed`] |
//!
//! Servers belong to the process that started them: each runs under an `outbox-guardian`, which ends it when that
//! process ends, however it ends. Nothing is written outside `target/` (or a folder in /tmp, see [`places`]).
//!
//! A harness has nobody to report an error to but the person who runs it, so everything here panics with one clear
//! message instead of returning a `Result`.

mod browser;
mod connection;
mod consumer;
mod cut;
mod database;
mod debezium;
mod delivery;
mod eventually;
mod guarded;
pub mod guardian;
mod http;
mod kafka;
mod pgbouncer;
pub mod places;
mod ports;
mod postgres;
mod processes;
mod prometheus;
mod proxy;
mod rabbitmq;
mod relay;
mod relay_log;
pub mod seed;
mod stack;
mod vhost;

pub use browser::Browser;
pub use connection::Connection;
pub use consumer::{Consumer, ConsumerBuilder};
pub use database::Database;
pub use debezium::{Debezium, DebeziumSink};
pub use delivery::Delivery;
pub use eventually::{SOON, eventually};
pub use guarded::Guarded;
pub use http::{Answer, get};
pub use kafka::{
    AclOperation, AclResource, Kafka, KafkaBuilder, KafkaClient, KafkaConsumer, KafkaFollower, KafkaNode, KafkaRecord,
    Listener,
};
pub use pgbouncer::PgBouncer;
pub use ports::free as free_port;
pub use postgres::{Postgres, PostgresBuilder, Shutdown};
pub use processes::Usage;
pub use prometheus::{Alert, Prometheus};
pub use proxy::{Direction, Ending, Flow, Proxy};
pub use rabbitmq::{Cluster, RabbitMq, RabbitMqBuilder};
pub use relay::{Relay, RelayBuilder};
pub use stack::Stack;
pub use vhost::Vhost;

/// Runs a future to its end from `Drop`, which cannot await and may already be inside a runtime.
fn on_own_runtime(task: impl Future<Output = ()> + Send) {
    std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        scope.spawn(move || runtime.block_on(task));
    });
}
