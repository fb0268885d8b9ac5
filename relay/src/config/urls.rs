//! Checks of the two servers' addresses, which hold passwords.

use pg_replication::ConnInfo;

use crate::publish::AmqpUrl;

/// What may be shown of a PostgreSQL address, or why it is refused.
pub(super) fn database(text: &str) -> Result<String, String> {
    text.parse::<ConnInfo>().map(|database| database.to_string()).map_err(|error| error.to_string())
}

/// What may be shown of a RabbitMQ address, or why it is refused.
pub(super) fn amqp(text: &str) -> Result<String, String> {
    text.parse::<AmqpUrl>().map(|url| url.to_string()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_an_address_leaves_the_password_out() {
        let shown = database("postgres://relay:hunter2@db.example:5433/shop").unwrap();
        assert_eq!(shown, "db.example:5433/shop as relay");
        let shown = amqp("amqps://relay:hunter2@mq.example/shop?heartbeat=10").unwrap();
        assert_eq!(shown, "amqps://relay@mq.example:5671/shop");
    }

    #[test]
    fn no_refusal_repeats_a_password() {
        let databases = [
            "hunter2",
            "postgres://relay:hunter2",
            "postgres://relay:hunter2@db:port/shop",
            "postgres://relay:hunter2@db/shop?colour=hunter2",
            "postgres://relay:hunter2@db/shop?sslmode=hunter2",
            "postgres://relay:hunter2@db/shop?connect_timeout=hunter2",
            "host=db user=relay password=a hunter2",
            "host=db password=hunter2",
        ];
        for text in databases {
            let why = database(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{text}: {why}");
        }
        let brokers = [
            "hunter2",
            "http://relay:hunter2@mq/",
            "amqp://relay:hunter2@mq:port/",
            "amqp://relay:hun/ter2@mq:hunter2/",
            "amqp://relay:100%hunter2@mq/",
            "amqp://relay:hunter2@mq/?colour=hunter2",
            "amqp://relay:hunter2@mq/?heartbeat=hunter2",
        ];
        for text in brokers {
            let why = amqp(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{text}: {why}");
        }
    }
}
