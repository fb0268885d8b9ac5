//! Failed connections to Kafka, in the operator's terms.

use kafka_producer::{ConnectError, KafkaUrl};

use crate::{
    address::Address,
    error::{Kind, RunError},
};

/// The hosts with their errors in one line; for a refused login, with the place where the login is set.
pub(super) fn why(error: &ConnectError, url: &Address<KafkaUrl>) -> String {
    if error.is_login() { format!("{error} (hint: {})", check_login(url)) } else { error.to_string() }
}

fn check_login(url: &Address<KafkaUrl>) -> String {
    format!("check user, password and mechanism in {}", url.place("kafka_url"))
}

/// The error that ends the startup.
pub fn end_of_start(error: &ConnectError, url: &Address<KafkaUrl>) -> RunError {
    let (kind, what, hint) = if error.is_login() {
        (Kind::BrokerRefused, format!("{url} refused the connection"), check_login(url))
    } else {
        let hint = format!("check hosts, ports and TLS in {}, and that the brokers run", url.place("kafka_url"));
        (Kind::Broker, format!("cannot connect to {url}"), hint)
    };
    RunError::new(kind, what).source(error.to_string()).hint(hint)
}
