//! What the demo prints: headings, lines with a time at the right, promises, tables. Plain text; colour on a terminal.

use std::{
    cell::Cell,
    fmt::Debug,
    io::IsTerminal,
    time::{Duration, Instant},
};

/// Where the times at the right end.
const WIDTH: usize = 100;
/// Everything below a heading stands under its words.
const INDENT: &str = "   ";
/// Width of a line's name.
const NAME: usize = 22;

/// Standard output.
pub(crate) struct Screen {
    colour: bool,
    step: Cell<u32>,
    begin: Cell<Instant>,
}

impl Screen {
    /// Uses colour if standard output is a terminal that can show it, and the user has not asked for none
    /// (<https://no-color.org>), or for it in any case (<https://bixense.com/clicolors>).
    pub(crate) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let forced =
            std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !["", "0"].map(Into::into).contains(&value));
        let colour = forced || std::io::stdout().is_terminal() && !dumb && !unwanted;
        Self { colour, step: Cell::new(0), begin: Cell::new(Instant::now()) }
    }

    /// The next step's heading.
    pub(crate) fn step(&self, title: &str) {
        self.step.set(self.step.get() + 1);
        println!("\n{}", self.bold(&format!("{}  {title}", self.step.get())));
    }

    /// Leaves the time since then out of the demo's.
    pub(crate) fn leave_out(&self, since: Instant) {
        self.begin.set(self.begin.get() + since.elapsed());
    }

    /// The last line.
    pub(crate) fn end(&self) {
        println!("\n{}", self.bold(&format!("Every promise held. {} in all.", duration(self.begin.get().elapsed()))));
    }

    /// A heading that is not a step.
    pub(crate) fn heading(&self, title: &str) {
        println!("\n{}", self.bold(title));
    }

    /// Something the demo does: a statement, a command.
    pub(crate) fn does(&self, what: &str) {
        println!("{INDENT}{}", self.dim(&format!("> {what}")));
    }

    /// A plain line.
    pub(crate) fn line(&self, text: &str) {
        println!("{INDENT}{text}");
    }

    /// A name and what there is to say about it.
    pub(crate) fn fact(&self, name: &str, text: &str) {
        println!("{INDENT}{name:NAME$}{text}");
    }

    /// The same, with a time at the right.
    pub(crate) fn timed(&self, name: &str, text: &str, time: Duration) {
        let left = format!("{INDENT}{name:NAME$}{text}");
        let room = WIDTH.saturating_sub(left.chars().count()).max(2);
        println!("{left}{}", self.bold(&format!("{:>room$}", duration(time))));
    }

    /// Says that a promise holds.
    ///
    /// # Panics
    /// When it does not, with what was found instead.
    #[track_caller]
    pub(crate) fn promise<T: Debug + PartialEq>(&self, promise: &str, found: T, wanted: T) {
        assert!(found == wanted, "this does not hold: {promise}; found {found:?} instead of {wanted:?}");
        println!("{INDENT}{} {promise}", self.green("✓"));
    }

    /// A table with a line of column names, as psql prints it.
    pub(crate) fn table(&self, names: &[String], rows: &[Vec<String>]) {
        let widths: Vec<usize> = names
            .iter()
            .enumerate()
            .map(|(column, name)| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.chain([name]).map(|cell| cell.chars().count()).max().unwrap_or_default()
            })
            .collect();
        let print = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        println!("{INDENT}{}", self.dim(&print(names)));
        for row in rows {
            println!("{INDENT}{}", print(row));
        }
    }

    fn bold(&self, text: &str) -> String {
        self.painted("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.painted("2", text)
    }

    fn green(&self, text: &str) -> String {
        self.painted("32", text)
    }

    /// ECMA-48's "select graphic rendition".
    fn painted(&self, rendition: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{rendition}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Two or three digits and a unit.
pub(crate) fn duration(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ..10.0 => format!("{ms:.1} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1000.0),
    }
}

/// A whole number with commas.
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in MiB, with one decimal place.
pub(crate) fn mib(bytes: u64) -> String {
    let tenths = (bytes * 10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// A message in a line.
pub(crate) fn message_line(id: &str, destination: &str, body: &[u8]) -> String {
    let body: String = String::from_utf8_lossy(body).chars().take(80).collect();
    format!("{id}  {destination}  {body}")
}
