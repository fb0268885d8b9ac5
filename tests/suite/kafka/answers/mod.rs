//! How Kafka answers what a producer can send: what the relay's Kafka sink relies on, one test for each answer. A new
//! version of Kafka that answers otherwise fails here first.
//!
//! The numbers are Kafka's error codes: 3 UNKNOWN_TOPIC_OR_PARTITION, 10 MESSAGE_TOO_LARGE, 17 INVALID_TOPIC_EXCEPTION,
//! 29 TOPIC_AUTHORIZATION_FAILED, 31 CLUSTER_AUTHORIZATION_FAILED, 32 INVALID_TIMESTAMP, 45
//! OUT_OF_ORDER_SEQUENCE_NUMBER, 47 INVALID_PRODUCER_EPOCH, 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 87
//! INVALID_RECORD.

mod epochs;
mod fence;
mod numbers;
mod reading;
mod refusals;
mod transactional_id;
