//! An idempotent Kafka producer with a certain confirm for each record.
//!
//! Kafka answers about a batch, and may name the records to blame. This client turns that into a confirm for each
//! record: taken, refused with the broker's words, not written because of the topic's state, or behind an earlier one
//! of its key. One bad record never harms the others of its batch.
//!
//! ```text
//!  Producer ──records──▶ Task ──▶ Cluster (pure): Topic ─ Partition ─ batches
//!     ▲                   │  └──▶ a task and a connection for each broker
//!     └──────news─────────┘  └──▶ a connection for questions about the cluster
//! ```
//!
//! You publish a type of your own: it implements [`Outgoing`].
//!
//! | module | what it is |
//! |---|---|
//! | `produce` | [`Producer`]: records in, a certain confirm for each out |
//! | `produce::{cluster, topic, partition}` | pure: what leaves next, with which numbers; what an answer means |
//! | `produce::{task, broker}` | the tasks that own the connections |
//! | `consume` | [`Reader`]: what is in a topic; what earlier producers with the same name have written |
//! | `inspect` | [`Inspector`]: topics, their settings, the user's rights |
//! | `record` | a batch as bytes, its compression, headers, a key's partition |
//! | `wire` | Kafka's protocol: requests with their answers, and the meaning of each error code |
//! | `connect` | from the cluster's URL to connections that are logged in; questions about the cluster; errors |
//!
//! # Example
//!
//! Writes a record for each line into a topic, and prints what became of it:
//!
//! ```no_run
#![doc = include_str!("../examples/produce.rs")]
//! ```

mod config;
mod connect;
mod consume;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod inspect;
mod produce;
mod record;
mod wire;

pub use self::{
    config::{ProduceConfig, UrlSource},
    connect::{
        error::{ConnectError, KafkaError},
        url::{InvalidKafkaUrl, KafkaUrl},
    },
    consume::{
        read_back::{Extent, TopicRead},
        reader::{From, Reader},
    },
    inspect::{Inspector, TopicRights, TopicSettings, TopicState},
    produce::{
        confirm::{Confirm, ConfirmKind, Reason},
        producer::{News, Producer},
    },
    record::{compression::Compression, fetched::Fetched, headers::Headers, message::Outgoing},
};
pub use client_socket::Host;
