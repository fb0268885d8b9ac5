//! Formats of answers: pure text, no I/O.

mod escape;
mod json;
mod table;

pub use self::{escape::escaped, table::Table};
pub(crate) use self::{
    json::{line as json_line, raw as raw_json},
    table::fields,
};
pub(crate) use outbox_service::{
    numbers::{bytes, count, thousands},
    time::{age, exact, rfc3339, seconds},
};

/// The style of a word on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Plain text.
    Plain,
    /// A name.
    Bold,
    /// All is well.
    Good,
    /// It needs attention soon.
    Warning,
    /// It needs attention now.
    Bad,
    /// Less important than the rest.
    Dim,
}

impl Tone {
    /// Returns the text in this tone (SGR, ECMA-48), or unchanged without colours.
    pub(crate) fn paint(self, text: &str, in_colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
            Self::Dim => "2",
        };
        if in_colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
