//! Checks of RabbitMQ. The connection is the relay's own client's, and declares nothing.

use std::time::Duration;

use amqp_publisher::{AmqpError, ExchangeUse, PublishConfig};
use outbox_service::{
    Config,
    sink::rabbitmq::{self, Publisher, end_of_start, explain},
};

use crate::{
    findings::{Report, certificate},
    sink::OnceKnown,
};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn inspect(config: &Config, report: &mut Report) -> Option<OnceKnown> {
    let Some(rabbitmq) = rabbitmq::settings(config) else {
        report.unknown("broker", "no broker is set, as by AMQP_URL", "set it as it is for the relay");
        return None;
    };
    let address = &rabbitmq.url;
    let url = match address.now() {
        Ok(url) => url,
        Err(bad) => {
            report.bad("broker", bad.to_string(), "");
            return None;
        }
    };
    let publish = rabbitmq::publish_config(config, rabbitmq, url.clone());
    match url.open(CONNECT_LIMIT).await {
        Ok(socket) => certificate::inspect_socket("broker_certificate", &socket, report),
        Err(error) => {
            report.bad("broker", end_of_start(&error, address).to_string(), "");
            return None;
        }
    }
    // The exchange is expected, not declared: a check creates nothing.
    let exchange_use = if rabbitmq.declare_exchange { ExchangeUse::Expect } else { ExchangeUse::Take };
    let connected = Publisher::connect(PublishConfig { exchange_use, ..publish }).await;
    let exchange = &rabbitmq.exchange;
    let reached = || format!("connected to RabbitMQ: {url}");
    let error = match connected {
        Ok(publisher) => {
            publisher.close().await;
            report.ok("broker", reached());
            report.ok("exchange", format!("{exchange:?} is there, and this user may publish to it"));
            return None;
        }
        Err(error) => error,
    };
    match error.failures.iter().map(|failure| &failure.cause).find(|cause| concerns_exchange(cause)) {
        Some(AmqpError::ExchangeMissing { .. }) => {
            report.ok("broker", reached());
            return Some(report_missing_exchange);
        }
        Some(cause) => {
            report.ok("broker", reached());
            let to_do = match cause {
                AmqpError::AccessRefused { .. } => {
                    "give the user the permission to configure the exchange, or set declare_exchange = false (rabbitmqctl set_permissions)"
                }
                _ => "", // the error says what to do
            };
            report.bad("exchange", explain(cause), to_do);
        }
        None => report.bad("broker", end_of_start(&error, address).to_string(), ""),
    }
    None
}

/// Reports that the exchange is missing. `is_at_work` is whether a relay reads the slot.
fn report_missing_exchange(config: &Config, is_at_work: bool, report: &mut Report) {
    let Some(rabbitmq) = rabbitmq::settings(config) else { return };
    let found = format!("there is no exchange {:?}", rabbitmq.exchange);
    if rabbitmq.declare_exchange && is_at_work {
        let to_do = "create it again, with its bindings: the relay that is at work does not, because without bindings every event would fail";
        report.bad("exchange", found, to_do);
    } else if rabbitmq.declare_exchange {
        let to_do = "the relay creates it at its start; until queues are bound to it, every event fails";
        report.warning("exchange", found, to_do);
    } else {
        report.bad("exchange", found, "create it, with its bindings");
    }
}

fn concerns_exchange(cause: &AmqpError) -> bool {
    matches!(
        cause,
        AmqpError::ExchangeMissing { .. }
            | AmqpError::ExchangeMismatch { .. }
            | AmqpError::AccessRefused { .. }
            | AmqpError::MayNotPublish { .. }
    )
}
