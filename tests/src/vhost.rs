//! A vhost of a test's own.

use serde_json::{Value, json};

use crate::{ConsumerBuilder, database::unique_name, http, on_own_runtime};

/// A vhost on a [`RabbitMq`](crate::RabbitMq). Dropping it deletes it with all that is in it.
#[derive(Debug)]
pub struct Vhost {
    name: String,
    amqp_port: u16,
    http_port: u16,
}

impl Vhost {
    pub(crate) async fn create(amqp_port: u16, http_port: u16) -> Self {
        let vhost = Self { name: unique_name(), amqp_port, http_port };
        vhost.api("PUT", &format!("/api/vhosts/{}", vhost.name), None).await;
        vhost.permit("guest", ".*", ".*", ".*").await;
        vhost
    }

    /// Its name, made of the test's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An `AMQP_URL` for it, as user guest.
    pub fn url(&self) -> String {
        self.url_as("guest", "guest")
    }

    /// An `AMQP_URL` for it as another user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("amqp://{user}:{password}@127.0.0.1:{}/{}", self.amqp_port, self.name)
    }

    /// An `AMQP_URL` for it through another port, a [`Proxy`](crate::Proxy)'s.
    pub fn url_at(&self, port: u16) -> String {
        format!("amqp://guest:guest@127.0.0.1:{port}/{}", self.name)
    }

    /// The node's own port.
    pub fn port(&self) -> u16 {
        self.amqp_port
    }

    /// Makes a user who may do here what the three patterns say (see RabbitMQ's access control). The name is the
    /// server's, so choose one that no other test has.
    pub async fn user(&self, name: &str, password: &str, configure: &str, write: &str, read: &str) {
        let user = json!({ "password": password, "tags": "" });
        self.api("PUT", &format!("/api/users/{name}"), Some(&user)).await;
        self.permit(name, configure, write, read).await;
    }

    /// Declares a durable topic exchange, as the relay does with its own.
    pub async fn exchange(&self, name: &str) {
        let exchange = json!({ "type": "topic", "durable": true });
        self.api("PUT", &format!("/api/exchanges/{}/{name}", self.name), Some(&exchange)).await;
    }

    /// A consumer with a queue of its own, bound to `exchange` by the pattern `binding` (`#` for everything).
    pub fn consumer(&self, exchange: &str, binding: &str) -> ConsumerBuilder {
        ConsumerBuilder::new(self.url(), exchange, binding)
    }

    /// Names of the clients connected here, as the management API knows them (up to 5 s late).
    pub async fn connections(&self) -> Vec<String> {
        let list = self.api("GET", &format!("/api/vhosts/{}/connections", self.name), None).await;
        let name = |connection: &Value| connection["name"].as_str().map(str::to_owned);
        list.as_array().into_iter().flatten().filter_map(name).collect()
    }

    /// One request to the HTTP API. A path in this vhost holds its name: `/api/queues/{name}`.
    ///
    /// # Panics
    /// When the answer is not a success.
    pub async fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        http::request(self.http_port, method, path, body).await.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn permit(&self, user: &str, configure: &str, write: &str, read: &str) {
        let permissions = json!({ "configure": configure, "write": write, "read": read });
        self.api("PUT", &format!("/api/permissions/{}/{user}", self.name), Some(&permissions)).await;
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        let (port, path) = (self.http_port, format!("/api/vhosts/{}", self.name));
        // A node that was stopped has nothing to delete.
        on_own_runtime(async { drop(http::request(port, "DELETE", &path, None).await) });
    }
}
