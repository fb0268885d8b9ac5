//! What may break, and does: one test for each fault.

mod broker;
mod data;
mod database;
mod relay;
