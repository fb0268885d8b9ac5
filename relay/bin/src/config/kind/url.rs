//! Addresses of servers, with logins: only what their `Display` shows is ever shown.

use std::{fmt::Display, marker::PhantomData, path::PathBuf, str::FromStr};

use amqp_publisher::AmqpUrl;
use kafka_producer::KafkaUrl;
use outbox_service::{address::Address, collector::OtlpEndpoint, redact::HIDDEN};
use pg_replication::ConnInfo;

use super::Kind;

/// A server's address. The errors of its parser contain nothing of the text.
pub(crate) trait Form: Clone + Display + FromStr<Err: Display> {
    /// The address's form, as an example.
    const EXAMPLE: &'static str;
    /// Whether the address has a login, and so may stand in a file.
    const HAS_LOGIN: bool = true;
}

impl Form for ConnInfo {
    const EXAMPLE: &'static str = "postgres://user:password@host:5432/database";
}

impl Form for AmqpUrl {
    const EXAMPLE: &'static str = "amqp://user:password@host:5672/vhost";
}

impl Form for KafkaUrl {
    const EXAMPLE: &'static str = "kafka://user:password@host:9092";
}

impl Form for OtlpEndpoint {
    const EXAMPLE: &'static str = "http://host:4318";
    const HAS_LOGIN: bool = false;
}

/// A server's address. One in a file is read again for each connection.
pub(crate) struct Url<T>(PhantomData<T>);

impl<T: Form> Kind for Url<T> {
    type Value = Address<T>;
    const IS_SECRET: bool = true;
    const HAS_FILE: bool = T::HAS_LOGIN;

    fn parse(text: &str) -> Result<Self::Value, String> {
        text.parse().map(Address::given).map_err(|error: T::Err| error.to_string())
    }

    fn allowed() -> String {
        format!("a URL such as {}", T::EXAMPLE)
    }

    fn placeholder() -> &'static str {
        "URL"
    }

    fn shown(text: &str) -> String {
        Self::parse(text).map_or_else(|_| HIDDEN.to_owned(), |address| address.to_string())
    }

    fn in_file(path: PathBuf, needed: bool) -> Result<Self::Value, String> {
        let address = Address::in_file(path);
        if needed {
            address.now().map_err(|bad| bad.to_string())?;
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_an_address_leaves_the_password_out() {
        let shown = Url::<ConnInfo>::shown("postgres://relay:hunter2@db.example:5433/shop");
        assert_eq!(shown, "db.example:5433/shop as relay");
        let shown = Url::<AmqpUrl>::shown("amqps://relay:hunter2@mq.example/shop?heartbeat=10");
        assert_eq!(shown, "amqps://relay@mq.example:5671/shop");
    }

    #[test]
    fn no_refusal_repeats_a_password() {
        refuses::<ConnInfo>(&[
            "hunter2",
            "postgres://relay:hunter2",
            "postgres://relay:hunter2@db:port/shop",
            "postgres://relay:hunter2@db/shop?colour=hunter2",
            "postgres://relay:hunter2@db/shop?sslmode=hunter2",
            "postgres://relay:hunter2@db/shop?connect_timeout=hunter2",
            "host=db user=relay password=a hunter2",
            "host=db password=hunter2",
        ]);
        refuses::<AmqpUrl>(&[
            "hunter2",
            "http://relay:hunter2@mq/",
            "amqp://relay:hunter2@mq:port/",
            "amqp://relay:hun/ter2@mq:hunter2/",
            "amqp://relay:100%hunter2@mq/",
            "amqp://relay:hunter2@mq/?colour=hunter2",
            "amqp://relay:hunter2@mq/?heartbeat=hunter2",
        ]);
    }

    fn refuses<T: Form>(texts: &[&str]) {
        for text in texts {
            let why = Url::<T>::parse(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{text}: {why}");
        }
    }
}
