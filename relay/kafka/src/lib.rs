//! An idempotent Kafka producer with a certain confirm for each record.

mod config;
mod connect;
mod produce;
mod record;

pub use self::{
    config::{Host, Login, ProduceConfig},
    connect::error::KafkaError,
    produce::{
        confirm::{Confirm, ConfirmKind, News, Reason},
        producer::{ConnectError, Producer},
    },
    record::{headers::Headers, message::Outgoing},
};
