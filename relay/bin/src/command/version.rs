//! `version`: which build of the relay this is.

use serde::Serialize;

use outbox_console::terminal::output::{Form, Output};
use outbox_service::error::RunError;

/// Print the version, the commit it was built from, and what was built in
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    form: Form,
}

/// Facts that were fixed when the relay was built.
#[derive(Debug, Serialize)]
struct Build {
    version: &'static str,
    /// The commit, if the build's variable `OUTBOX_COMMIT` names it, as packages and images do. Nothing runs git, so
    /// that a new commit does not rebuild everything.
    commit: Option<&'static str>,
    features: &'static [&'static str],
    platform: String,
}

impl Build {
    fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("OUTBOX_COMMIT"),
            features: if cfg!(feature = "otel") { &["otel"] } else { &[] },
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }

    fn for_people(&self) -> String {
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        format!(
            "outbox-relay {}\ncommit:   {}\nfeatures: {features}\nplatform: {}\n",
            self.version,
            self.commit.unwrap_or("not known"),
            self.platform,
        )
    }
}

/// Prints which build this is.
///
/// # Errors
///
/// Standard output cannot be written.
pub(crate) fn run(options: Options) -> Result<(), RunError> {
    let mut output = Output::new(options.form);
    let build = Build::this();
    if output.json { output.object(&build) } else { output.print(&build.for_people()) }
}
