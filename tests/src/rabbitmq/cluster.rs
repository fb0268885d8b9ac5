//! Three nodes that are one broker.

use std::{process::Command, time::Duration};

use serde_json::Value;

use super::{RabbitMq, RabbitMqBuilder};
use crate::{
    Guarded, Vhost, eventually,
    guarded::Start,
    places::{run_folder, server_folder},
    ports,
};

/// A node joins again in 9 to 15 s.
const JOINED: Duration = Duration::from_secs(120);

/// What bounds a node: one scheduler that sleeps when it has nothing to do, and a short log of quorum queues, which is
/// held in memory.
const ONE_SCHEDULER: &str = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none";
const RAFT_LOG_BYTES: &str = "33554432";

/// A cluster of three nodes, each of which may be stopped and killed. Dropping it ends them.
#[derive(Debug)]
pub struct Cluster {
    nodes: [RabbitMq; 3],
    /// By it the nodes find each other.
    _epmd: Guarded,
}

impl Cluster {
    /// Makes the nodes and starts them, some 30 s.
    pub async fn start() -> Self {
        let (home, epmd_port) = (server_folder("rabbitmq"), ports::free());
        let mut epmd = Command::new("epmd");
        epmd.args(["-address", "127.0.0.1", "-port", &epmd_port.to_string()]).current_dir(&home);
        let log = home.join("epmd.log");
        let start = Start { name: "epmd", run: run_folder(&home), log: Some(&log), user: None, stop: "KILL" };
        let (epmd, _) = Guarded::start(&start, &epmd);

        let name = |number: usize| format!("rabbit{number}@localhost");
        // They have one cookie, which the first makes; it has nobody to look for, and the others have it.
        let node = async |number, known: &[usize]| {
            let mut builder = RabbitMqBuilder::default()
                .erlang_arguments(ONE_SCHEDULER)
                .set("raft.wal_max_size_bytes", RAFT_LOG_BYTES)
                .set("cluster_formation.peer_discovery_backend", "classic_config");
            for number in known {
                builder = builder.set(&format!("cluster_formation.classic_config.nodes.{number}"), &name(*number));
            }
            builder.start_node(name(number), server_folder("rabbitmq"), home.clone(), epmd_port).await
        };
        let first = node(1, &[1]).await;
        let (second, third) = tokio::join!(node(2, &[1, 2, 3]), node(3, &[1, 2, 3]));
        let cluster = Self { nodes: [first, second, third], _epmd: epmd };
        cluster.join().await;
        cluster
    }

    /// The nodes.
    pub fn nodes(&self) -> &[RabbitMq; 3] {
        &self.nodes
    }

    /// An `AMQP_URL` of all nodes.
    pub fn url(&self, vhost: &Vhost) -> String {
        let hosts = self.nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.amqp_port()));
        format!("amqp://guest:guest@{}/{}", hosts.join(","), vhost.name())
    }

    /// The node to which an address belongs that ends in its port, and the two others.
    ///
    /// # Panics
    /// When there is none.
    pub fn node_at(&self, address: &str) -> (&RabbitMq, [&RabbitMq; 2]) {
        let [first, second, third] = &self.nodes;
        let turns = [(first, [second, third]), (second, [third, first]), (third, [first, second])];
        let is_at = |node: &RabbitMq| address.ends_with(&format!(":{}", node.amqp_port()));
        turns.into_iter().find(|(node, _)| is_at(node)).unwrap_or_else(|| panic!("no node is at {address}"))
    }

    /// Starts the nodes that a test has left down, and waits until each sees the others.
    pub async fn join(&self) {
        let [first, second, third] = &self.nodes;
        let start = async |node: &RabbitMq| {
            if !node.is_running() {
                node.start().await;
            }
        };
        tokio::join!(start(first), start(second), start(third));
        for node in &self.nodes {
            // It accepts clients a moment before; a vhost that is made in between stays down there.
            eventually(&format!("{} has started", node.name()), JOINED, async || {
                let log = node.log();
                if log.rfind("Server startup complete") > log.rfind("Starting RabbitMQ") {
                    Ok(())
                } else {
                    Err("not yet")
                }
            })
            .await;
            eventually(&format!("{} sees the others", node.name()), JOINED, async || {
                let nodes = node.api("GET", "/api/nodes", None).await;
                let running = nodes.as_array().into_iter().flatten();
                let running = running.filter(|node| node.get("running") == Some(&Value::Bool(true))).count();
                if running == self.nodes.len() { Ok(()) } else { Err(running) }
            })
            .await;
        }
    }

    /// A new vhost, up on every node.
    pub async fn vhost(&self) -> Vhost {
        let vhost = self.nodes[0].vhost().await;
        let path = format!("/api/vhosts/{}", vhost.name());
        eventually("the vhost is up on every node", JOINED, async || {
            let vhost = vhost.api("GET", &path, None).await;
            let states = vhost.get("cluster_state").and_then(Value::as_object).into_iter().flatten();
            let up = states.filter(|(_, state)| *state == "running").count();
            if up == self.nodes.len() { Ok(()) } else { Err(up) }
        })
        .await;
        vhost
    }
}
