//! Queries of the database: statements and their rows, and a session with limits that protect its other users.

pub(crate) mod event;
pub(crate) mod finished;
pub(crate) mod health;
pub(crate) mod relays;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod sql;
