//! Makes a Kafka.

use std::{fs, path::Path, process::Stdio};

use futures_util::future::join_all;
use uuid::Uuid;

use super::{Kafka, KafkaNode, Listener, jars};
use crate::{places::server_folder, ports};

/// A Kafka's settings before it starts.
#[derive(Debug)]
pub struct KafkaBuilder {
    nodes: i32,
    settings: String,
    users: Vec<(String, String)>,
    tls: Option<[String; 3]>,
    acls: bool,
    proxied: Option<(u16, u16)>,
}

impl Default for KafkaBuilder {
    fn default() -> Self {
        Self { nodes: 1, settings: String::new(), users: Vec::new(), tls: None, acls: false, proxied: None }
    }
}

impl KafkaBuilder {
    /// A line of server.properties, e.g. `("message.max.bytes", "65536")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings += &format!("{name}={value}\n");
        self
    }

    /// Three nodes, on which every topic has three replicas, two of which have to be in sync.
    #[must_use]
    pub fn three_nodes(mut self) -> Self {
        self.nodes = 3;
        self
    }

    /// A user who logs in by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, on [`Listener::Sasl`], and on [`Listener::SaslTls`]
    /// if there is a certificate. Name and password are letters and digits.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.to_owned(), password.to_owned()));
        self
    }

    /// The certificate for [`Listener::Tls`], its key (PKCS #8), and the authority of clients' certificates; all are
    /// paths of PEM files. `("ssl.client.auth", "required")` then asks for such a certificate.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str, authority: &str) -> Self {
        self.tls = Some([certificate, key, authority].map(str::to_owned));
        self
    }

    /// Users may do only what [`Kafka::allow`] says; whoever does not log in may do everything.
    #[must_use]
    pub fn acls(mut self) -> Self {
        self.acls = true;
        self
    }

    /// [`Listener::Proxied`] is at `port`, and the broker tells its clients that it is at the port of a
    /// [`Proxy`](crate::Proxy) to it: clients go where the broker says, not where they came in.
    #[must_use]
    pub fn proxied(mut self, port: u16, proxy: u16) -> Self {
        self.proxied = Some((port, proxy));
        self
    }

    /// Starts it.
    pub async fn start(self) -> Kafka {
        let archive = jars::class_archive().await;
        self.start_with(&format!("-XX:SharedArchiveFile={}", archive.display())).await
    }

    /// The same with this option for Java.
    pub(super) async fn start_with(self, java_option: &str) -> Kafka {
        let controllers: Vec<_> = (0..self.nodes).map(|_| ports::free()).collect();
        let cluster = format!("{}A", &Uuid::new_v4().simple().to_string()[..21]); // base64 of 16 bytes
        let nodes = (1..=self.nodes).map(|id| self.node(id, &controllers, &cluster, java_option));
        let nodes = join_all(nodes).await;
        join_all(nodes.iter().map(|node| node.start_in(self.nodes))).await;
        Kafka::of(nodes)
    }

    async fn node(&self, id: i32, controllers: &[u16], cluster: &str, java_option: &str) -> KafkaNode {
        let folder = server_folder("kafka");
        let mut ports = vec![(Listener::Plain, ports::free())];
        if self.tls.is_some() {
            ports.push((Listener::Tls, ports::free()));
        }
        if !self.users.is_empty() {
            ports.push((Listener::Sasl, ports::free()));
            ports.extend(self.tls.as_ref().map(|_| (Listener::SaslTls, ports::free())));
        }
        ports.extend(self.proxied.map(|(port, _)| (Listener::Proxied, port)));
        if let Some([certificate, key, authority]) = &self.tls {
            let pem = [key, certificate].map(|path| fs::read_to_string(path).expect("a PEM file")).concat();
            fs::write(folder.join("keystore.pem"), pem).expect("the key store is written");
            fs::copy(authority, folder.join("truststore.pem")).expect("a PEM file");
        }
        let properties = self.properties(id, controllers, &ports, &folder);
        fs::write(folder.join("server.properties"), properties).expect("the properties are written");
        ports.extend(
            (1..).zip(controllers).filter(|(voter, _)| *voter == id).map(|(_, port)| (Listener::Controller, *port)),
        );
        self.format(&folder, cluster, java_option).await;
        KafkaNode::new(id, folder, ports, java_option.to_owned())
    }

    fn properties(&self, id: i32, controllers: &[u16], ports: &[(Listener, u16)], folder: &Path) -> String {
        let join = |parts: Vec<String>| parts.join(",");
        let voters: Vec<_> = (1..).zip(controllers).collect();
        let controller = voters.iter().find(|(voter, _)| *voter == id).expect("every node is a controller").1;
        let voters = voters.iter().map(|(id, port)| format!("{id}@127.0.0.1:{port}")).collect();
        let at = |(listener, port): &(Listener, u16)| format!("{}://127.0.0.1:{port}", listener.name());
        let advertised = |(listener, port): &(Listener, u16)| match (listener, self.proxied) {
            (Listener::Proxied, Some((_, proxy))) => at(&(*listener, proxy)),
            _ => at(&(*listener, *port)),
        };
        let protocols = ports.iter().map(|(listener, _)| format!("{}:{}", listener.name(), listener.protocol()));
        let in_sync = if self.nodes == 1 { 1 } else { 2 };
        let mut text = format!(
            "process.roles=broker,controller
node.id={id}
controller.quorum.voters={}
controller.listener.names=CONTROLLER
listeners={},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={}
listener.security.protocol.map={},CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
log.dirs={}
auto.create.topics.enable=false
default.replication.factor={nodes}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=1
offsets.topic.replication.factor={nodes}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={nodes}
transaction.state.log.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=1
num.io.threads=2
",
            join(voters),
            join(ports.iter().map(at).collect()),
            join(ports.iter().map(advertised).collect()),
            join(protocols.collect()),
            folder.join("data").display(),
            nodes = self.nodes,
        );
        if self.nodes > 1 {
            // Others take over from a killed node after 4 s in place of 9 s.
            text += "broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=4000\n";
        }
        if self.tls.is_some() {
            for store in ["keystore", "truststore"] {
                let file = folder.join(store).with_extension("pem");
                text += &format!("ssl.{store}.type=PEM\nssl.{store}.location={}\n", file.display());
            }
        }
        if !self.users.is_empty() {
            text += "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n";
            let users = self.users.iter().map(|(name, password)| format!(" user_{name}=\"{password}\""));
            let users: String = users.collect();
            for listener in ["sasl", "sasl_tls"] {
                let setting = |mechanism, module| {
                    let package = "org.apache.kafka.common.security";
                    format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={package}.{module} required")
                };
                text += &format!("{}{users};\n", setting("plain", "plain.PlainLoginModule"));
                for mechanism in ["scram-sha-256", "scram-sha-512"] {
                    text += &format!("{};\n", setting(mechanism, "scram.ScramLoginModule"));
                }
            }
        }
        if self.acls {
            text += "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n";
            text += "super.users=User:ANONYMOUS\n";
        }
        text + &self.settings
    }

    async fn format(&self, folder: &Path, cluster: &str, java_option: &str) {
        let mut java = tokio::process::Command::from(jars::java());
        java.current_dir(folder).args([java_option, "kafka.tools.StorageTool", "format"]);
        java.args(["--cluster-id", cluster, "--config", "server.properties"]);
        for (name, password) in &self.users {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                java.args(["--add-scram", &format!("{mechanism}=[name={name},password={password}]")]);
            }
        }
        let output = java.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("Java starts");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kafka.tools.StorageTool: {text}");
    }
}
