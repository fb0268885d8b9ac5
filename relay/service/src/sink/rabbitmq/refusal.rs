//! Failed connections to RabbitMQ, in the operator's terms.

use amqp_publisher::{AmqpError, AmqpUrl, ConnectError};

use crate::{
    address::Address,
    error::{Kind, RunError, chain},
};

const MISMATCH: &str = "name another exchange, or use this one as it is with declare_exchange = false";
const MISSING: &str = "make it again with its bindings, or import the broker's definitions; \
                       started with declare_exchange = true, the relay makes it, without any bindings";

/// The error with its causes and, if there is one, a hint, in one line.
pub fn explain(error: &AmqpError) -> String {
    match error {
        AmqpError::ExchangeMismatch { exchange, text } => {
            format!("exchange {exchange:?} is not what the relay declares (topic, durable): {text}; {MISMATCH}")
        }
        AmqpError::ExchangeMissing { .. } => format!("{}; {MISSING}", chain(error)),
        _ => chain(error),
    }
}

/// The hosts with their errors in one line; for a refused login, with the place where the login is set.
pub(super) fn why(error: &ConnectError, url: &Address<AmqpUrl>) -> String {
    let hosts = error.describe(explain);
    match error.refusal() {
        Some(AmqpError::Authentication { .. } | AmqpError::Vhost { .. }) => {
            format!("{hosts} (hint: {})", check_login(url))
        }
        _ => hosts,
    }
}

fn check_login(url: &Address<AmqpUrl>) -> String {
    format!("check user, password and virtual host in {}, and the user's permissions", url.place("AMQP_URL"))
}

/// The error that ends the startup.
pub fn end_of_start(error: &ConnectError, url: &Address<AmqpUrl>) -> RunError {
    let (kind, what, hint) = if error.refusal().is_some() {
        (Kind::BrokerRefused, format!("{url} refused the connection"), check_login(url))
    } else {
        let hint = format!("check hosts, ports and TLS in {}, and that the broker runs", url.place("AMQP_URL"));
        (Kind::Broker, format!("cannot connect to {url}"), hint)
    };
    let failed = RunError::new(kind, what).source(error.describe(explain));
    if error.failures.iter().any(|failure| says_what_to_do(&failure.cause)) { failed } else { failed.hint(hint) }
}

/// Whether the text of [`explain`] contains a hint.
fn says_what_to_do(error: &AmqpError) -> bool {
    matches!(
        error,
        AmqpError::ExchangeMismatch { .. }
            | AmqpError::ExchangeMissing { .. }
            | AmqpError::MayNotPublish { .. }
            | AmqpError::MayNotConsume { .. }
            | AmqpError::WrongPort(_)
    )
}
