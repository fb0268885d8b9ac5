//! `completions` and `man`: shell completions and manual pages of the program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap_complete::Shell;
use clap_mangen::Man;

use outbox_console::terminal::output::{Form, Output};
use outbox_service::{
    error::{Kind, RunError},
    redact::file_name,
};

/// Print a shell's completions of commands and options
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write one for each command
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Manual {
    /// Write outbox-relay.1, outbox-relay-run.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Prints the completions of a shell.
///
/// # Errors
///
/// Standard output or a file cannot be written.
pub(crate) fn completions(mut program: clap::Command, options: Completions) -> Result<(), RunError> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut program, "outbox-relay", &mut script);
    Output::new(Form::default()).print(&String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes one for each command.
///
/// # Errors
///
/// Standard output or a file cannot be written.
pub(crate) fn manual(mut program: clap::Command, options: &Manual) -> Result<(), RunError> {
    program.build();
    let Some(folder) = &options.dir else {
        let page =
            page(program).map_err(|error| RunError::new(Kind::Internal, "cannot make the page").source(error))?;
        return Output::new(Form::default()).print(&String::from_utf8_lossy(&page));
    };
    write_all(program, "outbox-relay", folder)
        .map_err(|error| RunError::new(Kind::Usage, format!("cannot write to {}", file_name(folder))).source(error))
}

fn page(program: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(program).render(&mut page)?;
    Ok(page)
}

fn write_all(program: clap::Command, name: &str, folder: &Path) -> std::io::Result<()> {
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("{name}-{}", command.get_name());
        fs::write(folder.join(format!("{name}.1")), page(command.clone().name(name))?)?;
    }
    fs::write(folder.join(format!("{name}.1")), page(program)?)
}
