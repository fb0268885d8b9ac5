//! `Traces` of a relay built without OpenTelemetry: does nothing, at no cost.

use crate::{config::Config, error::RunError, observe::Observed};

/// Makes no spans.
pub(crate) struct Traces;

impl Traces {
    #[expect(clippy::unnecessary_wraps, reason = "with OpenTelemetry it can fail")]
    pub(crate) fn start(_: &Config, _: &Observed) -> Result<Self, RunError> {
        Ok(Self)
    }

    #[expect(clippy::unused_async, reason = "with OpenTelemetry it waits")]
    pub(crate) async fn finish(self) {}
}
