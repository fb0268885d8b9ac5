//! What checks find, and the checks that those of the database and of a sink share.

pub(crate) mod certificate;
mod report;

pub(crate) use self::report::{Level, Report};
