//! What is asked of the database: a session that cannot hurt those who work there, and every statement.

pub(crate) mod event;
pub(crate) mod finished;
pub(crate) mod health;
pub(crate) mod relays;
pub(crate) mod session;
pub(crate) mod sql;
