//! A private Kafka of one node or three, in KRaft mode.

mod admin;
mod builder;
mod client;
mod consumer;
mod follower;
mod jars;
mod java;
mod node;
mod record;
mod rights;

pub use builder::KafkaBuilder;
pub use client::KafkaClient;
pub use consumer::KafkaConsumer;
pub use follower::KafkaFollower;
pub use node::KafkaNode;
pub use record::KafkaRecord;
pub use rights::{AclOperation, AclResource};
use tokio::sync::OnceCell;

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Neither encryption nor login: every Kafka has it.
    Plain,
    /// Login, see [`KafkaBuilder::user`].
    Sasl,
    /// Encryption, see [`KafkaBuilder::tls`].
    Tls,
    /// Both.
    SaslTls,
    /// As [`Plain`](Self::Plain), by a proxy, see [`KafkaBuilder::proxied`].
    Proxied,
    /// That of the node's controller, which is for brokers and not for clients: every Kafka has it.
    Controller,
}

impl Listener {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Sasl => "SASL",
            Self::Tls => "TLS",
            Self::SaslTls => "SASL_TLS",
            Self::Proxied => "PROXIED",
            Self::Controller => "CONTROLLER",
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Self::Plain | Self::Proxied | Self::Controller => "PLAINTEXT",
            Self::Sasl => "SASL_PLAINTEXT",
            Self::Tls => "SSL",
            Self::SaslTls => "SASL_SSL",
        }
    }
}

/// A Kafka of its own on loopback ports, which creates no topic by itself. Dropping it ends it and removes its files.
#[derive(Debug)]
pub struct Kafka {
    nodes: Vec<KafkaNode>,
}

impl Kafka {
    fn of(nodes: Vec<KafkaNode>) -> Self {
        Self { nodes }
    }

    /// Why no Kafka can run here: Java or Maven is missing, or the jars cannot be had. `None`: one can.
    pub fn missing() -> Option<&'static str> {
        jars::folder().err()
    }

    /// The version that runs here.
    ///
    /// # Panics
    /// When one is [`missing`](Self::missing).
    pub fn version() -> &'static str {
        let folder = jars::folder().unwrap_or_else(|why| panic!("no Kafka here: {why}"));
        let name = folder.file_name().and_then(|name| name.to_str()).expect("the folder is named after the version");
        name.trim_start_matches("kafka-")
    }

    /// The one node that all tests of this process share. It is started by the first of them. Its user `app`, whose
    /// password is `secret`, may do only what a test [allows](Self::allow).
    ///
    /// # Panics
    /// When one is [`missing`](Self::missing).
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Kafka> = OnceCell::const_new();
        SHARED.get_or_init(async || Self::private().user("app", "secret").acls().start().await).await
    }

    /// One of the test's own, whose nodes it may stop, kill and freeze.
    pub fn private() -> KafkaBuilder {
        KafkaBuilder::default()
    }

    /// Its nodes, by id.
    pub fn nodes(&self) -> &[KafkaNode] {
        &self.nodes
    }

    /// The node of this id.
    ///
    /// # Panics
    /// When there is none.
    pub fn node(&self, id: i32) -> &KafkaNode {
        self.nodes.iter().find(|node| node.id() == id).unwrap_or_else(|| panic!("there is no node {id}"))
    }

    /// The addresses of all nodes, as clients are given them: `127.0.0.1:20001,127.0.0.1:20005`.
    pub fn addresses(&self, listener: Listener) -> String {
        let addresses = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port(listener)));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// A connection to a node that runs.
    pub async fn client(&self) -> KafkaClient {
        let node = self.nodes.iter().find(|node| node.is_running()).expect("a node is running");
        KafkaClient::connect(node.port(Listener::Plain)).await
    }
}
