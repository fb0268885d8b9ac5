//! What the commands have in common that ask for the state of things and change nothing.

use std::time::Duration;

use super::output::Form;
use crate::format::length;

/// How it is asked, and in which form it is answered.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// How long all of it may take, as 5s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) form: Form,
}
