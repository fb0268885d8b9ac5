//! Ends connections to a RabbitMQ node from the broker's side.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{RabbitMq, http};

/// The management plugin lists a connection up to 5 s after it was opened.
const LISTED: Duration = Duration::from_secs(6);

impl RabbitMq {
    /// Closes the connections to one vhost by the HTTP API, which tells the clients so (320), and returns how many
    /// there were. Waits until there is one; a vhost without clients has none after 6 s.
    pub async fn cut_connections(&self, vhost: &str) -> usize {
        let start = Instant::now();
        loop {
            let path = format!("/api/vhosts/{vhost}/connections");
            let list = http::request(self.http_port(), "GET", &path, None).await.unwrap_or(Value::Null);
            let mut cut = 0;
            for name in list.as_array().into_iter().flatten().filter_map(|connection| connection["name"].as_str()) {
                // One that has ended meanwhile, and is still listed, is not found.
                let path = format!("/api/connections/{}", percent_encoded(name));
                cut += usize::from(http::request(self.http_port(), "DELETE", &path, None).await.is_ok());
            }
            if cut > 0 || start.elapsed() > LISTED {
                return cut;
            }
            tokio::time::sleep(Duration::from_millis(100)).await; // the API is asked; it tells nobody by itself
        }
    }
}

/// A connection's name is "127.0.0.1:40000 -> 127.0.0.1:5672".
fn percent_encoded(name: &str) -> String {
    let encoded = |byte: u8| match char::from(byte) {
        plain if plain.is_ascii_alphanumeric() => plain.to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encoded).collect()
}
