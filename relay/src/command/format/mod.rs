//! How answers look: pure text, no I/O.

mod age;
mod json;
mod table;
mod time;

pub(super) use self::{
    age::{age, parse_age},
    json::{line as json_line, raw as raw_json},
    table::{Table, fields},
    time::{is_moment, rfc3339},
};
pub(super) use crate::{
    numbers::{bytes, count, thousands},
    unseen::escaped,
};

/// How a word stands out on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Bold,
    Good,
    Warning,
    Bad,
    Dim,
}

impl Tone {
    /// The text in this tone (SGR, ECMA-48), or as it is without colours.
    pub(super) fn paint(self, text: &str, in_colour: bool) -> String {
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
