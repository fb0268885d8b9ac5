//! Tables for people: columns as wide as needed, without lines between them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Tone, escaped};

/// Widest cell, in columns of a terminal; longer text is cut and ends with `…`.
const WIDEST_CELL: usize = 60;

/// A table: headings and rows. Every cell is [`escaped`].
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// Makes a table with these headings and no rows.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each heading.
    pub fn row(&mut self, cells: Vec<(String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (cut(&escaped(&text)), tone)).collect());
    }

    /// Returns the table's lines.
    pub fn show(&self, in_colour: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| text.width());
            cells.chain(self.headings.get(column).map(|heading| heading.len())).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let headings = self.headings.iter().map(|heading| ((*heading).to_owned(), Tone::Dim)).collect();
        let line = |cells: &Vec<(String, Tone)>| {
            let mut line = String::new();
            let mut gap = 0;
            for ((text, tone), width) in cells.iter().zip(&widths) {
                if !text.is_empty() {
                    line.push_str(&" ".repeat(gap));
                    line.push_str(&tone.paint(text, in_colour));
                    gap = 0;
                }
                gap += width.saturating_sub(text.width()) + 2; // no spaces at the end of a line
            }
            line + "\n"
        };
        std::iter::once(&headings).chain(&self.rows).map(line).collect()
    }
}

/// Formats names and values, a line each, with the values aligned. Values are escaped.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    pairs.iter().map(|(name, value)| format!("  {name:width$}  {}\n", escaped(value))).collect()
}

fn cut(text: &str) -> String {
    if text.width() <= WIDEST_CELL {
        return text.to_owned();
    }
    let mut left = WIDEST_CELL - 1;
    let kept: String = text
        .chars()
        .take_while(|c| {
            let width = c.width().unwrap_or_default();
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        })
        .collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(cells: &[&str]) -> Vec<(String, Tone)> {
        cells.iter().map(|cell| ((*cell).to_owned(), Tone::Plain)).collect()
    }

    #[test]
    fn columns_stand_below_their_headings_whatever_the_characters_width() {
        let mut table = Table::new(&["TOPIC", "N"]);
        table.row(plain(&["本", "1"]));
        table.row(plain(&["orders", "2"]));
        table.row(plain(&["", ""]));
        assert_eq!(table.show(false), "TOPIC   N\n本      1\norders  2\n\n");
    }

    #[test]
    fn a_cell_is_cut_and_escaped() {
        let mut table = Table::new(&["A"]);
        table.row(plain(&["x".repeat(100).as_str()]));
        table.row(plain(&["\u{1b}[2J"]));
        let lines: Vec<String> = table.show(false).lines().map(str::to_owned).collect();
        assert_eq!(lines[1], format!("{}…", "x".repeat(59)));
        assert_eq!(lines[2], "\\u{1b}[2J");
    }

    #[test]
    fn colours_are_the_only_escapes_and_only_where_they_are_asked_for() {
        let mut table = Table::new(&["A"]);
        table.row(vec![("x".to_owned(), Tone::Bad)]);
        assert!(!table.show(false).contains('\u{1b}'));
        assert!(table.show(true).contains("\u{1b}[31mx\u{1b}[0m"));
    }
}
