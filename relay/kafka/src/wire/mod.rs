//! Kafka's protocol, as far as it is needed: <https://kafka.apache.org/protocol>. Each request is sent in one version,
//! which brokers from 2.4 to 4.x speak, and in the form before tagged fields.

pub(crate) mod codec;
pub(crate) mod codes;
pub(crate) mod inspecting;
pub(crate) mod requests;
