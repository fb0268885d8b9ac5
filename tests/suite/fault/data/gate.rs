//! A queue that takes no message until it is opened.

use harness::{SOON, Vhost, eventually};
use serde_json::{Value, json};

/// Full by a policy, so that its limit can be lifted while the queue stays.
pub(super) struct Gate<'a> {
    vhost: &'a Vhost,
    queue: String,
    policy: String,
}

impl<'a> Gate<'a> {
    /// Declares the relay's exchange and a queue called `topic`, binds them by that topic, and fills the queue.
    pub(super) async fn closed(vhost: &'a Vhost, topic: &str) -> Self {
        let name = vhost.name();
        vhost.exchange("outbox").await;
        let gate = Self {
            vhost,
            queue: format!("/api/queues/{name}/{topic}"),
            policy: format!("/api/policies/{name}/{topic}"),
        };
        vhost.api("PUT", &gate.queue, Some(&json!({ "durable": true }))).await;
        let binding = format!("/api/bindings/{name}/e/outbox/q/{topic}");
        vhost.api("POST", &binding, Some(&json!({ "routing_key": topic }))).await;
        let full = json!({ "max-length": 1, "overflow": "reject-publish" });
        let policy = json!({ "pattern": format!("^{topic}$"), "apply-to": "queues", "definition": full });
        vhost.api("PUT", &gate.policy, Some(&policy)).await;
        gate.wait_for_policy(|policy| policy.as_str() == Some(topic)).await;
        let filler = json!({ "routing_key": topic, "payload": "", "payload_encoding": "string", "properties": {} });
        vhost.api("POST", &format!("/api/exchanges/{name}/outbox/publish"), Some(&filler)).await;
        gate
    }

    /// Lifts the limit.
    pub(super) async fn open(&self) {
        self.vhost.api("DELETE", &self.policy, None).await;
        self.wait_for_policy(|policy| policy.as_str().is_none()).await;
    }

    async fn wait_for_policy(&self, holds: impl Fn(&Value) -> bool) {
        eventually("the policy is in force", SOON, async || {
            let mut queue = self.vhost.api("GET", &self.queue, None).await;
            let policy = queue["policy"].take();
            if holds(&policy) { Ok(()) } else { Err(policy) }
        })
        .await;
    }
}
