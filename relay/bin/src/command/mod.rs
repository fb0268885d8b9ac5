//! The command line, and the commands that need no server: about the program itself and its settings.
//!
//! | module | what it is |
//! |---|---|
//! | `parser` | every command, and which settings its help text shows |
//! | `settings`, `shell`, `version` | `config`; `completions` and `man`; `version` |

mod parser;
#[cfg(test)]
mod reference;
mod settings;
mod shell;
mod version;

pub(crate) use self::{
    parser::{Command, program, read},
    settings::run as config,
    shell::{completions, manual},
    version::run as version,
};
