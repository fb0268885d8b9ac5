//! Kafka's own client, in Java.

use std::process::Stdio;

use tokio::time::timeout;

use super::{Kafka, Listener, jars};
use crate::{SOON, places::checkout};

impl Kafka {
    /// The first values of a topic's only partition, as Kafka's own client reads them. None has a line's end.
    ///
    /// # Panics
    /// When the client fails, or has not read so many within [`SOON`].
    pub async fn values_in_java(&self, topic: &str, count: usize) -> Vec<String> {
        let mut java = tokio::process::Command::from(jars::java());
        java.arg(checkout().join("tests/kafka/Consume.java")).args([&self.addresses(Listener::Plain), topic]);
        java.arg(count.to_string()).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(SOON, java.output()).await.unwrap_or_else(|_| panic!("{topic} has no {count} records"));
        let output = output.expect("Java starts");
        let [read, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "Consume.java: {said}");
        read.lines().map(str::to_owned).collect()
    }
}
