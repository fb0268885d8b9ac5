//! Makes a RabbitMQ node.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::RabbitMq;
use crate::{places::server_folder, ports};

/// A node's settings before it starts.
#[derive(Debug, Default)]
pub struct RabbitMqBuilder {
    settings: Vec<(String, String)>,
    plugins: Vec<&'static str>,
    erlang_arguments: &'static str,
}

impl RabbitMqBuilder {
    /// A line of rabbitmq.conf, e.g. `("max_message_size", "65536")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A plugin beside the management pages, which every node has.
    #[must_use]
    pub fn plugin(mut self, name: &'static str) -> Self {
        self.plugins.push(name);
        self
    }

    /// More arguments for Erlang's virtual machine.
    #[must_use]
    pub(super) fn erlang_arguments(mut self, arguments: &'static str) -> Self {
        self.erlang_arguments = arguments;
        self
    }

    /// Makes a new node and starts it.
    pub async fn start(self) -> RabbitMq {
        let folder = server_folder("rabbitmq");
        self.start_node("rabbit@localhost".to_owned(), folder.clone(), folder, ports::free()).await
    }

    /// The port for TLS, if a test has set one.
    fn tls_port(&self) -> Option<u16> {
        let (_, address) = self.settings.iter().find(|(name, _)| name == "listeners.ssl.1")?;
        address.rsplit(':').next()?.parse().ok()
    }

    pub(super) async fn start_node(&self, name: String, folder: PathBuf, home: PathBuf, epmd_port: u16) -> RabbitMq {
        let node = RabbitMq {
            name,
            folder,
            home,
            amqp_port: ports::free(),
            tls_port: self.tls_port(),
            http_port: ports::free(),
            distribution_port: ports::free(),
            epmd_port,
            erlang_arguments: self.erlang_arguments,
            process: Mutex::default(),
        };
        let mut conf = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n",
            node.amqp_port, node.http_port
        );
        for (name, value) in &self.settings {
            conf += &format!("{name} = {value}\n");
        }
        write(&node.folder.join("rabbitmq.conf"), &conf);
        let plugins: Vec<&str> = ["rabbitmq_management"].into_iter().chain(self.plugins.iter().copied()).collect();
        write(&node.folder.join("enabled_plugins"), &format!("[{}].\n", plugins.join(",")));
        node.start().await;
        node
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
