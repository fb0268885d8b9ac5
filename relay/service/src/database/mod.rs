//! A database and its server: how they are reached, what they must be like, and what they refuse.

pub mod compatibility;
pub mod errors;
pub mod foreign;
pub mod ownership;
pub mod platform;
pub mod postgres;
pub mod requirements;
