//! `config`: the settings in force, and where each comes from.

use outbox_console::{
    format::{Table, Tone},
    terminal::output::{Form, Output, note},
};
use outbox_service::error::RunError;

use crate::config::RawSettings;

/// Print the effective settings and where each comes from, without connecting
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    form: Form,
}

/// Prints settings that [`RawSettings::resolve`] has accepted.
///
/// # Errors
///
/// Standard output cannot be written.
pub(crate) fn run(raw: &RawSettings, options: &Options) -> Result<(), RunError> {
    for (retired, place) in raw.retired() {
        note(&format!("{place}: {} has no effect any more: {}", retired.key, retired.instead));
    }
    let mut output = Output::new(options.form);
    if output.json {
        return raw.in_force().try_for_each(|setting| output.object(&setting));
    }
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    for setting in raw.in_force() {
        let tone = if setting.origin == "default" { Tone::Dim } else { Tone::Plain };
        table.row(vec![
            (setting.key, Tone::Bold),
            (setting.value.unwrap_or_default(), Tone::Plain),
            (setting.origin, tone),
        ]);
    }
    output.print(&table.show(output.in_colour()))
}
