//! The kind of broker that this program publishes to, for each crate that asks. No other part of the program knows it,
//! beside the settings.

pub(crate) use outbox_console::sink::rabbitmq::RabbitMq as Console;
