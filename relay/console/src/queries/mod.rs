//! What is asked of the database: a session that cannot hurt those who work there, and every statement.

pub(crate) mod session;
pub(crate) mod sql;
