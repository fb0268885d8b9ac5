//! End-to-end tests on real servers. One binary, so that they share the servers and link once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test that meets the unexpected has failed

mod clients;
mod command;
mod containers;
mod dashboard;
mod documents;
mod extension;
mod fault;
mod kafka;
mod not_run;
mod publish;
mod random;
mod refused_deletions;
mod relay;
mod replication;
mod scripts;
mod search_path;
mod servers;
mod watch;
