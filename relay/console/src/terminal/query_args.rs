//! Arguments that the commands share which only query.

use std::time::Duration;

use super::output::Form;
use crate::format::length;

/// Time limit and form of a query.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// How long all of it may take, as 5s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) form: Form,
}
