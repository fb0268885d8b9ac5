//! Checks of Kafka. The connection is the relay's own client's, and writes nothing.

use kafka_producer::Inspector;
use outbox_service::{
    Config,
    error::RunError,
    sink::kafka::{self, end_of_start, produce_config},
};

use crate::findings::{Report, certificate};

pub(super) async fn inspect(config: &Config, report: &mut Report) {
    let Some(kafka) = kafka::settings(config) else {
        report.unknown("broker", "kafka_url is not set", "set it as it is for the relay");
        return;
    };
    match connect(config, kafka).await {
        Ok(inspector) => {
            if let Some(socket) = inspector.socket() {
                certificate::inspect_socket("broker_certificate", socket, report);
            }
            let broker = inspector.peer().map(ToString::to_string).unwrap_or_default();
            report.ok("broker", format!("connected to Kafka: {broker}"));
        }
        Err(error) => report.bad("broker", error.to_string(), ""),
    }
}

/// Connects to the cluster, to look at it.
pub(super) async fn connect(config: &Config, kafka: &kafka::Config) -> Result<Inspector, RunError> {
    Inspector::connect(produce_config(config, &kafka.url)?).await.map_err(|error| end_of_start(&error, &kafka.url))
}
