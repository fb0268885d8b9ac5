//! A real Kafka: what the harness offers of it, and how it answers what a producer can send.

mod answers;
mod broker;
mod nodes;
mod producer;
mod sink;

use harness::{Kafka, KafkaBuilder};

use crate::not_run::not_run_outside_ci;

/// The shared Kafka. `None`, and the reason in a file for scripts/not-run, where none can run.
///
/// # Panics
/// Where none can run and this is CI (`CI=true`).
pub(crate) async fn shared() -> Option<&'static Kafka> {
    private()?;
    Some(Kafka::shared().await)
}

/// A Kafka of the test's own; as [`shared`].
pub(crate) fn private() -> Option<KafkaBuilder> {
    match Kafka::missing() {
        None => Some(Kafka::private()),
        Some(why) => {
            not_run_outside_ci("kafka", why);
            None
        }
    }
}
