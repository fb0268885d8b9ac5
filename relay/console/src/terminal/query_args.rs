//! Arguments that the commands share which only query.

use std::time::Duration;

use outbox_service::time::{UNITS, parse};

use super::output::Form;

/// Time limit and form of a query.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// How long all of it may take, as 5s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Parses an option that is a length of time, such as `10s`.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    let time = parse(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("expected a time from 1ms to 10000d ({UNITS}), as in 10s, 1h 30m or 4w"))
}
