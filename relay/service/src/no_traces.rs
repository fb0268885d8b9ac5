//! What stands for the way to a collector in a relay that is built without OpenTelemetry: nothing, at no cost.

use crate::{config::Config, error::RunError, observe::Observed};

/// No spans.
pub(crate) struct Traces;

impl Traces {
    #[expect(clippy::unnecessary_wraps, reason = "with OpenTelemetry it can fail")]
    pub(crate) fn start(_: &Config, _: &Observed) -> Result<Self, RunError> {
        Ok(Self)
    }

    #[expect(clippy::unused_async, reason = "with OpenTelemetry it waits")]
    pub(crate) async fn finish(self) {}
}
