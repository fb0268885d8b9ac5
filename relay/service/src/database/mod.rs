//! A database and its server: SQL sessions, requirements, and errors in the operator's terms.

pub mod compatibility;
pub mod errors;
pub mod foreign;
pub mod ownership;
pub mod platform;
pub mod postgres;
pub mod requirements;
