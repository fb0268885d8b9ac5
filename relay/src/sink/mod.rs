//! Brokers: a folder for each.

pub mod rabbitmq;
